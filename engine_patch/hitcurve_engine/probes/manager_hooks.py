"""The wrappers around ``KVCacheManager``. Every one returns what the original returned, the same object.

Where a method has the parameters that most versions have, its wrapper has the same ones. Else it takes
``*args, **kwargs``, which costs up to three times as much a call.
"""

from collections.abc import Callable
from typing import Any

from hitcurve_engine.probes.patching import Method, parameter_position, same_parameters
from hitcurve_engine.switch import Switch

__all__ = ["MANAGER_HOOKS"]


def _on_lookup(original: Method, switch: Switch) -> Method:
    """``get_computed_blocks``: runs at every attempt to schedule a waiting request."""

    def get_computed_blocks(self: Any, request: Any) -> Any:
        result = original(self, request)
        if switch.active:
            try:
                probe = self._hitcurve_probe
                if probe is not None:
                    probe.looked_up(self, request, result)
            except Exception as error:
                switch.fail("get_computed_blocks", error)
        return result

    def of_any_shape(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    probe.looked_up(args[0], args[1] if len(args) > 1 else kwargs["request"], result)
            except Exception as error:
                switch.fail("get_computed_blocks", error)
        return result

    return get_computed_blocks if same_parameters(original, get_computed_blocks) else of_any_shape


def _on_connector_lookup(original: Method, switch: Switch) -> Method:
    """``get_computed_blocks_for_connector`` (0.27+): mostly calls ``get_computed_blocks``, which is seen then."""

    def get_computed_blocks_for_connector(*args: Any, **kwargs: Any) -> Any:
        probe = None
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    probe.asked = None
            except Exception as error:
                switch.fail("get_computed_blocks_for_connector", error)
        result = original(*args, **kwargs)
        if probe is not None and switch.active:
            try:
                request = args[1] if len(args) > 1 else kwargs["request"]
                if probe.asked is not request:
                    probe.looked_up(args[0], request, result)
            except Exception as error:
                switch.fail("get_computed_blocks_for_connector", error)
        return result

    return get_computed_blocks_for_connector


def _on_allocation(original: Method, switch: Switch) -> Method:
    """``allocate_slots``: knows whom blocks are for, and that a lookup counts once it returns something.

    What it admits may be less than was found, and is ``num_new_computed_tokens`` (0.9+). It runs at every step of
    every request, mostly for its next token, with nothing to tell: this way through is kept the shortest, and does
    not ask the switch. The parameters are those of 0.32 and 0.33.
    """
    admitted_at = parameter_position(original, "num_new_computed_tokens")

    def ended(probe: Any, request: Any, result: Any, admitted: Any, external: Any) -> None:
        try:
            probe.current = None
            if switch.active:
                probe.allocated(request, result, admitted, external)
        except Exception as error:
            switch.fail("allocate_slots", error)

    def allocate_slots(
        self: Any,
        request: Any,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: Any = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
        skip_zeroing_group_ids: Any = (),
    ) -> Any:
        try:
            probe = self._hitcurve_probe
            if probe is not None:
                probe.current = request
        except Exception as error:
            switch.fail("allocate_slots", error)
            probe = None
        try:
            result = original(
                self,
                request,
                num_new_tokens,
                num_new_computed_tokens,
                new_computed_blocks,
                num_lookahead_tokens,
                num_external_computed_tokens,
                delay_cache_blocks,
                num_encoder_tokens,
                full_sequence_must_fit,
                reserved_blocks,
                has_scheduled_reqs,
                skip_zeroing_group_ids,
            )
        except BaseException:
            if probe is not None:
                ended(probe, request, None, None, None)
            raise
        if probe is not None:
            if probe.pending:
                ended(probe, request, result, num_new_computed_tokens, num_external_computed_tokens)
            else:
                probe.current = None
        return result

    def of_any_shape(*args: Any, **kwargs: Any) -> Any:
        probe = None
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    probe.current = request = args[1] if len(args) > 1 else kwargs["request"]
            except Exception as error:
                switch.fail("allocate_slots", error)
        if probe is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            ended(probe, request, None, None, None)
            raise
        if not probe.pending:
            probe.current = None
            return result
        admitted = kwargs.get("num_new_computed_tokens")
        if admitted is None and admitted_at is not None and len(args) > admitted_at:
            admitted = args[admitted_at]
        ended(probe, request, result, admitted, kwargs.get("num_external_computed_tokens"))
        return result

    return allocate_slots if same_parameters(original, allocate_slots) else of_any_shape


def _on_free(original: Method, switch: Switch) -> Method:
    """``free`` and ``pop_blocks_for_free`` (0.24+): the end of a request, or a preemption; its state tells."""

    def free(self: Any, request: Any) -> Any:
        if switch.active:
            try:
                probe = self._hitcurve_probe
                if probe is not None:
                    probe.freed(request)
            except Exception as error:
                switch.fail("free", error)
        return original(self, request)

    def of_any_shape(*args: Any, **kwargs: Any) -> Any:
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    probe.freed(args[1] if len(args) > 1 else kwargs["request"])
            except Exception as error:
                switch.fail("free", error)
        return original(*args, **kwargs)

    return free if same_parameters(original, free) else of_any_shape


def _on_reset(original: Method, switch: Switch) -> Method:
    """``reset_prefix_cache``: its answer says whether the cache was cleared."""

    def reset_prefix_cache(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    probe.reset(result)
            except Exception as error:
                switch.fail("reset_prefix_cache", error)
        return result

    return reset_prefix_cache


def _on_evict_blocks(original: Method, switch: Switch) -> Method:
    """``evict_blocks`` (0.13+): after a failed load; no request causes it, and the blocks may be in use."""

    def evict_blocks(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = args[0]._hitcurve_probe
                if probe is not None:
                    block_ids = args[1] if len(args) > 1 else kwargs["block_ids"]
                    probe.evicted(block_ids)
            except Exception as error:
                switch.fail("evict_blocks", error)
        return result

    return evict_blocks


MANAGER_HOOKS: dict[str, Callable[[Method, Switch], Method]] = {
    "get_computed_blocks": _on_lookup,
    "get_computed_blocks_for_connector": _on_connector_lookup,
    "allocate_slots": _on_allocation,
    "free": _on_free,
    "pop_blocks_for_free": _on_free,
    "reset_prefix_cache": _on_reset,
    "evict_blocks": _on_evict_blocks,
}
"""By method of ``KVCacheManager``; those that a version lacks are passed over."""
