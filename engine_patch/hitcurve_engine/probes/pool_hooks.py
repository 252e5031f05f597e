"""The wrappers around ``BlockPool``: which blocks are handed out, and which get content.

Handing a cached block out *is* the eviction, and the replay knows from the stored ones which were cached. So
``_maybe_evict_cached_block``, which runs once per block, is left alone: a wrapper there would cost more than
everything else together.
"""

from collections.abc import Callable
from typing import Any

from hitcurve_engine.probes.patching import Method, parameter_position, same_parameters
from hitcurve_engine.switch import Switch

__all__ = ["POOL_HOOKS"]


def _on_taken(original: Method, switch: Switch) -> Method:
    """``get_new_blocks``."""

    def get_new_blocks(self: Any, num_blocks: int) -> Any:
        result = original(self, num_blocks)
        if switch.active:
            try:
                probe = self._hitcurve_probe
                if probe is not None:
                    probe.handed_out(result)
            except Exception as error:
                switch.fail("get_new_blocks", error)
        return result

    def of_any_shape(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    probe.handed_out(result)
            except Exception as error:
                switch.fail("get_new_blocks", error)
        return result

    return get_new_blocks if same_parameters(original, get_new_blocks) else of_any_shape


def _on_stored(original: Method, switch: Switch) -> Method:
    """``cache_full_blocks``: called with keywords; up to 0.10.0 it is given the hashes, and adds to them."""
    has_groups = parameter_position(original, "kv_cache_group_id") is not None
    names = ("request", "blocks", "num_cached_blocks", "num_full_blocks", "block_size", "kv_cache_group_id")
    positions = {name: parameter_position(original, name) for name in (*names, "block_hashes", "block_mask")}

    def cache_full_blocks(
        self: Any,
        request: Any,
        blocks: Any,
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: Any = None,
    ) -> Any:
        result = original(
            self, request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id, block_mask
        )
        if switch.active:
            try:
                probe = self._hitcurve_probe
                if probe is not None:
                    first, end, group = num_cached_blocks, num_full_blocks, kv_cache_group_id
                    probe.filled(request, group, first, end, None, blocks, block_mask)
            except Exception as error:
                switch.fail("cache_full_blocks", error)
        return result

    def of_any_shape(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    given = kwargs
                    if len(args) > 1:
                        places = ((name, place) for name, place in positions.items() if place is not None)
                        given = {**kwargs, **{name: args[place] for name, place in places if place < len(args)}}
                    group = given["kv_cache_group_id"] if has_groups else 0
                    first, end = given["num_cached_blocks"], given["num_full_blocks"]
                    hashes, mask = given.get("block_hashes"), given.get("block_mask")
                    probe.filled(given["request"], group, first, end, hashes, given["blocks"], mask)
            except Exception as error:
                switch.fail("cache_full_blocks", error)
        return result

    return cache_full_blocks if same_parameters(original, cache_full_blocks) else of_any_shape


POOL_HOOKS: dict[str, Callable[[Method, Switch], Method]] = {
    "get_new_blocks": _on_taken,
    "cache_full_blocks": _on_stored,
}
"""By method of ``BlockPool``."""
