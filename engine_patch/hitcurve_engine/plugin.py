"""The entry point in ``vllm.general_plugins``: vLLM calls ``register`` in every process that it starts.

Safe to call again and in any process: it wraps methods and starts nothing. What needs a thread or a socket begins
with the first lookup of a cache manager, hence in engine processes only, and after any fork.
"""

import logging
import os

from hitcurve_engine.metrics.first_token import FirstTokens
from hitcurve_engine.metrics.front_end import prepare_front_end
from hitcurve_engine.probes.install import Hooks
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.settings import read_settings
from hitcurve_engine.switch import Switch

__all__ = ["hooks", "register", "unregister"]

_log = logging.getLogger("hitcurve.engine")
_hooks: Hooks | None = None
_first_tokens: FirstTokens | None = None


def register() -> None:
    """Hook into vLLM unless that is done or switched off. Never raises."""
    global _first_tokens, _hooks
    if _hooks is not None:
        return
    try:
        _be_heard()
        settings = read_settings(os.environ)
        if not settings.enabled:
            return
        switch = Switch()
        if settings.metrics:
            prepare_front_end(os.environ)
            _first_tokens = FirstTokens(switch)
            _first_tokens.install()
        _hooks = Hooks(switch, lambda shape: Recorder(shape, settings, switch))
        _hooks.install()
    except Exception as error:
        _log.warning("hitcurve: the engine patch is not loaded (%s: %s)", type(error).__name__, error)


def unregister() -> None:
    """Take the hooks off again, as far as nobody wrapped them in turn."""
    global _first_tokens, _hooks
    if _first_tokens is not None:
        _first_tokens.remove()
        _first_tokens = None
    if _hooks is not None:
        _hooks.remove()
        _hooks = None


def _be_heard() -> None:
    """Our few warnings are written unless somebody set a level for our own loggers: the root logger may let only
    errors pass, as seen in a server of vLLM 0.29."""
    if all(logging.getLogger(name).level == logging.NOTSET for name in ("hitcurve", _log.name)):
        _log.setLevel(logging.WARNING)


def hooks() -> Hooks | None:
    """The hooks of this process, where they are in place."""
    return _hooks
