"""What a real radix cache needs around it: stand-ins for what is not installed, an allocator and rows of slots.

To be imported before anything of the engine.
"""

import os
import sys
import types
from types import SimpleNamespace
from typing import Any

os.environ["SGLANG_RUST_BUILD_MODE"] = "never"
# It must decide that torchvision is absent before the stand-ins are there.
import transformers

__all__ = ["Pages", "Rows"]

MODULES = (
    "torchvision",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "torchvision.transforms.v2",
)


class StandIn(types.ModuleType):
    """An empty module from which anything can be imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return SimpleNamespace


for module_name in (*MODULES, "torchvision.transforms.v2.functional", "torchvision.io"):
    sys.modules[module_name] = StandIn(module_name)

import torch  # noqa: E402
from sglang.srt.mem_cache.allocator.base import BaseTokenToKVPoolAllocator  # noqa: E402

LONGEST = 4_096
REQUESTS = 128
assert transformers


class Pages:
    """The allocator that a cache frees to: pages of slots, and what the evicted ones held."""

    device = torch.device("cpu")
    evict_to_free_tokens = BaseTokenToKVPoolAllocator.evict_to_free_tokens

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.free_pages = list(range(num_pages))
        self.fingerprints: dict[int, int] = {}
        self.evicted: list[int] | None = None
        """Fingerprints of freed pages while something is evicted."""

    def available_size(self) -> int:
        return len(self.free_pages) * self.page_size

    def mamba_full_cache_donor(self) -> None:
        return None

    def take(self, count: int) -> list[int]:
        taken = self.free_pages[:count]
        assert len(taken) == count
        del self.free_pages[:count]
        return taken

    def free(self, slots: torch.Tensor) -> None:
        pages = list(dict.fromkeys(slot // self.page_size for slot in slots.tolist()))
        assert not set(pages) & set(self.free_pages), "freed twice"
        self.free_pages.extend(pages)
        if self.evicted is not None:
            self.evicted.extend(self.fingerprints[page] for page in pages)

    def free_segment(self, slots: torch.Tensor, start_pos: int = 0) -> None:
        self.free(slots)

    def free_group_begin(self) -> None:
        pass

    def free_group_end(self) -> None:
        pass


class Rows:
    """Where a request's slots are written down."""

    def __init__(self) -> None:
        self.req_to_token = torch.zeros((REQUESTS, LONGEST), dtype=torch.int64)
        self.unused = list(range(REQUESTS))

    def write(self, indices: Any, values: torch.Tensor) -> None:
        self.req_to_token[indices] = values
