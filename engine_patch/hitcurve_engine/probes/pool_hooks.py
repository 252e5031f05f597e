"""The wrappers around ``BlockPool``: which blocks are handed out, and which get content.

Handing a cached block out *is* the eviction, and the replay knows from the stored ones which were cached. So
``_maybe_evict_cached_block``, which runs once per block, is left alone: a wrapper there would cost more than
everything else together.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any

from hitcurve_engine.probes.events import STORED, TAKEN
from hitcurve_engine.probes.patching import Method, parameter_position
from hitcurve_engine.switch import Switch

__all__ = ["POOL_HOOKS"]


def _on_taken(original: Method, switch: Switch) -> Method:
    """``get_new_blocks``."""

    def get_new_blocks(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    if len(probe.events) < probe.limit:
                        probe.events.append((TAKEN, monotonic(), result, len(result), probe.current))
                    else:
                        probe.overflow()
            except Exception as error:
                switch.fail("get_new_blocks", error)
        return result

    return get_new_blocks


def _on_stored(original: Method, switch: Switch) -> Method:
    """``cache_full_blocks``: called with keywords; up to 0.10.0 it is given the hashes, and adds to them."""
    given_hashes = parameter_position(original, "block_hashes") is not None
    has_groups = parameter_position(original, "kv_cache_group_id") is not None
    names = ("request", "blocks", "num_cached_blocks", "num_full_blocks", "block_size", "kv_cache_group_id")
    positions = {name: parameter_position(original, name) for name in (*names, "block_hashes", "block_mask")}

    def keywords(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = dict(kwargs)
        for name, position in positions.items():
            if position is not None and position < len(args):
                given[name] = args[position]
        return given

    def cache_full_blocks(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    given = kwargs if len(args) == 1 else keywords(args, kwargs)
                    first, end = given["num_cached_blocks"], given["num_full_blocks"]
                    if first >= end:
                        return result
                    if len(probe.events) < probe.limit:
                        request = given["request"]
                        group = given["kv_cache_group_id"] if has_groups else 0
                        hashes = given["block_hashes"] if given_hashes else request.block_hashes
                        mask = given.get("block_mask")
                        blocks, offset = given["blocks"], 0
                        if probe.copies:
                            blocks, offset = blocks[first:end], first
                        probe.events.append(
                            (STORED, monotonic(), request, group, first, end, hashes, blocks, offset, mask)
                        )
                    else:
                        probe.overflow()
            except Exception as error:
                switch.fail("cache_full_blocks", error)
        return result

    return cache_full_blocks


POOL_HOOKS: dict[str, Callable[[Method, Switch], Method]] = {
    "get_new_blocks": _on_taken,
    "cache_full_blocks": _on_stored,
}
"""By method of ``BlockPool``."""
