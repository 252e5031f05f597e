"""For ``--scheduler-cls hitcurve_engine.scheduler.Scheduler``: vLLM's own scheduler, with the hooks in place.

vLLM 0.8.5 does not load plugins in its engine process; naming a scheduler class of this module there brings them
in, since vLLM imports it in that process. ``AsyncScheduler`` is the other one, where vLLM has it (0.10+). Without
plugins (``VLLM_PLUGINS=``) it is a way in for every later version.
"""

import importlib
from typing import Any

from hitcurve_engine.plugin import register

_MODULES = {"Scheduler": "vllm.v1.core.sched.scheduler", "AsyncScheduler": "vllm.v1.core.sched.async_scheduler"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    register()
    return getattr(importlib.import_module(_MODULES[name]), name)
