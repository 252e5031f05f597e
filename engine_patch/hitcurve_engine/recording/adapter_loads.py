"""Which weights an adapter has: a number that grows when its name is loaded again with others.

vLLM tells adapters apart in its block keys by their number up to 0.11.0, by name from 0.11.1 and by name and path
from 0.31, and clears nothing when one is loaded again. So blocks of the earlier weights are found again where the
name (and path) stayed. A load shows as a call of ``EngineCore.add_lora``, or by another number or path on a
request.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hitcurve_engine.recording.request_reading import Adapter

__all__ = ["AdapterLoads", "files_of"]

_MOST_ADAPTERS: Final = 10_000

Files = tuple[tuple[str, int, int], ...]


def files_of(path: str) -> Files | None:
    """Name, size and modification time of an adapter's files; ``None`` where the path is no folder that can be
    read, such as the name of a model on a hub."""
    try:
        found = [(entry.name, entry.stat()) for entry in os.scandir(path) if entry.is_file()]
    except OSError:
        return None
    return tuple(sorted((name, status.st_size, status.st_mtime_ns) for name, status in found))


@dataclass(slots=True)
class _Adapter:
    number: int
    path: str
    files: Files | None
    load: int = 0


class AdapterLoads:
    """Follows adapters by name, at most 10,000 of them. ``files`` looks at a path; called once for each load."""

    def __init__(self, files: Callable[[str], Files | None] = files_of) -> None:
        self._files = files
        self._known: OrderedDict[str, _Adapter] = OrderedDict()

    def of(self, adapter: Adapter) -> int:
        """The load that a request with this adapter uses: 0, and one more for each time the weights changed."""
        name, number, path = adapter
        known = self._known.get(name)
        if known is None or (known.number, known.path) != (number, path):
            return self.loaded(adapter)
        return known.load

    def loaded(self, adapter: Adapter) -> int:
        """The engine has read this adapter's files just now."""
        name, number, path = adapter
        now = _Adapter(number, path, self._files(path))
        before = self._known.get(name)
        if before is not None:
            # Where files cannot be looked at, the same path is taken for the same weights.
            others = now.files != before.files if now.files and before.files else now.path != before.path
            now.load = before.load + others
        self._known[name] = now
        self._known.move_to_end(name)
        if len(self._known) > _MOST_ADAPTERS:
            self._known.popitem(last=False)
        return now.load
