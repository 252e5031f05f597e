"""The wrapper around ``EngineCore``: when an adapter is loaded, which no cache manager is told."""

from collections.abc import Callable
from typing import Any

from hitcurve_engine.probes.patching import Method
from hitcurve_engine.switch import Switch

__all__ = ["ENGINE_HOOKS"]


def _on_adapter(original: Method, switch: Switch) -> Method:
    """``add_lora``: called on the engine's thread for each load that somebody asks for, in place or not."""

    def add_lora(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if switch.active:
            try:
                probe = getattr(args[0].scheduler.kv_cache_manager, "_hitcurve_probe", None)
                if probe is not None:
                    lora = args[1] if len(args) > 1 else kwargs["lora_request"]
                    probe.adapter_loaded(lora)
            except Exception as error:
                switch.fail("add_lora", error)
        return result

    return add_lora


ENGINE_HOOKS: dict[str, Callable[[Method, Switch], Method]] = {"add_lora": _on_adapter}
"""By method of ``EngineCore``."""
