"""Look at a new cache manager, and at the scheduler around it: is it watched, and what are its blocks?"""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "CacheShape",
    "describe_cache",
    "describe_engine",
    "hash_root",
    "hash_root_fingerprint",
    "pool_of",
    "vllm_span_attributes",
]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What the replay must know of a manager. Sizes are tokens."""

    block_size: int
    """Of the group that is followed."""
    hash_block_size: int
    """Tokens per hash of a request; a block may span several."""
    group: int
    """The group that is followed: the first with full attention, else the first."""
    groups: int
    full_attention: bool
    """Whether the group that is followed keeps all its blocks."""
    pool_blocks: int
    """Usable blocks."""
    withheld_blocks: int | None
    """Matched blocks that the engine's rules give up (EAGLE: 1); ``None`` = not known."""
    other_groups: tuple[tuple[int, int], ...] = ()
    """Index and block size of the groups besides it, all of which a hit needs."""


def describe_cache(manager: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> CacheShape | None:
    """The shape of a manager that was just built with these arguments; ``None`` where it caches nothing.

    Raises AttributeError and the like for a manager that is built otherwise than any known one.
    """
    if not manager.enable_caching:
        return None
    config: Any = keywords["kv_cache_config"] if "kv_cache_config" in keywords else arguments[0]
    specs = config.kv_cache_groups
    group = _followed_group(specs)
    block_size = _block_size(manager, specs, group)
    pool = manager.block_pool
    eagle = bool(keywords.get("use_eagle", getattr(manager, "use_eagle", False)))
    return CacheShape(
        block_size=block_size,
        hash_block_size=getattr(pool, "hash_block_size", None) or block_size,
        group=group,
        groups=len(specs),
        full_attention=_is_full_attention(specs[group]),
        pool_blocks=pool.num_gpu_blocks - 1,
        withheld_blocks=int(eagle) if len(specs) == 1 else None,
        other_groups=tuple(
            (index, _block_size(manager, specs, index)) for index in range(len(specs)) if index != group
        ),
    )


def pool_of(manager: Any, group: int) -> Any:
    """The pool of a group's blocks: the manager's, or (0.30+) one of its own, where an id is another block."""
    singles = getattr(getattr(manager, "coordinator", None), "single_type_managers", None)
    return getattr(singles[group], "block_pool", manager.block_pool) if singles else manager.block_pool


def describe_engine(scheduler: Any) -> dict[str, Any]:
    """Fields of ``EngineFacts`` that a scheduler's configuration tells; what it does not have is left out."""
    config = scheduler.vllm_config
    parallel = getattr(config, "parallel_config", None)
    index = getattr(parallel, "data_parallel_index", None)
    if index is None:
        index = getattr(parallel, "data_parallel_rank", None)
    model = getattr(config, "model_config", None)
    name = getattr(model, "served_model_name", None) or getattr(model, "model", None)
    if isinstance(name, list | tuple):
        name = name[0] if name else None
    return {
        "engine_index": index,
        "model_name": name,
        "traces_endpoint": getattr(getattr(config, "observability_config", None), "otlp_traces_endpoint", None),
        "hash_algorithm": getattr(getattr(config, "cache_config", None), "prefix_caching_hash_algo", None),
        "has_connector": getattr(scheduler, "connector", None) is not None,
    }


def hash_root() -> Any:
    """What block hashes begin with: bytes, up to vLLM 0.10.1 an int; ``None`` before vLLM has drawn it, or where
    it keeps it elsewhere."""
    return getattr(sys.modules.get("vllm.v1.core.kv_cache_utils"), "NONE_HASH", None)


def hash_root_fingerprint() -> str | None:
    """Eight digits that tell whether two engines begin their block hashes alike, and nothing of any content.

    ``None`` where the root is not known.
    """
    root = hash_root()
    if isinstance(root, int):
        root = root.to_bytes(max(root.bit_length() // 8 + 1, 16), "big", signed=True)
    return hashlib.sha256(root).hexdigest()[:8] if isinstance(root, bytes) else None


def vllm_span_attributes() -> tuple[str, ...]:
    """Names of the attributes that vLLM's own spans may have, in the version that runs."""
    names = getattr(sys.modules.get("vllm.tracing"), "SpanAttributes", None)
    if names is None:
        return ()
    return tuple(sorted(value for value in vars(names).values() if isinstance(value, str) and "." in value))


def _followed_group(groups: Sequence[Any]) -> int:
    return next((index for index, group in enumerate(groups) if _is_full_attention(group)), 0)


def _is_full_attention(group: Any) -> bool:
    name = type(group.kv_cache_spec).__name__
    return "FullAttention" in name or name.startswith("MLA")


def _block_size(manager: Any, groups: Sequence[Any], group: int) -> int:
    """As the engine fills blocks: with context parallelism they hold more than the specification says."""
    singles = getattr(getattr(manager, "coordinator", None), "single_type_managers", None)
    if singles is not None and hasattr(singles[group], "block_size"):
        return int(singles[group].block_size)
    size = getattr(manager, "block_size", None)
    return int(size if size is not None else groups[group].kv_cache_spec.block_size)
