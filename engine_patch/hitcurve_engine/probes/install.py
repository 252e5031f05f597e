"""Hook into the classes of vLLM's V1 engine, by what they have and never by a version number."""

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hitcurve_engine.probes.adoption import CacheShape, describe_cache, describe_engine, pool_of
from hitcurve_engine.probes.engine_hooks import ENGINE_HOOKS
from hitcurve_engine.probes.import_watch import ImportWatch
from hitcurve_engine.probes.manager_hooks import MANAGER_HOOKS
from hitcurve_engine.probes.patching import Method, MethodPatch, wrap_method
from hitcurve_engine.probes.pool_hooks import POOL_HOOKS
from hitcurve_engine.probes.probe import PROBE_ATTRIBUTE
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.switch import Switch

__all__ = ["ENGINE_MODULE", "MANAGER_MODULE", "POOL_MODULE", "SCHEDULER_MODULE", "Hooks"]

MANAGER_MODULE = "vllm.v1.core.kv_cache_manager"
POOL_MODULE = "vllm.v1.core.block_pool"
SCHEDULER_MODULE = "vllm.v1.core.sched.scheduler"
ENGINE_MODULE = "vllm.v1.engine.core"

RecorderMaker = Callable[[CacheShape], Recorder]


class Hooks:
    """All hooks of a process. ``make_recorder`` makes the recorder of each cache manager that caches."""

    def __init__(self, switch: Switch, make_recorder: RecorderMaker) -> None:
        self._switch = switch
        self._make_recorder = make_recorder
        self._patches: list[MethodPatch] = []
        self._marked: list[type] = []
        self._recorders: list[weakref.ref[Recorder]] = []
        self._watch = ImportWatch((MANAGER_MODULE, POOL_MODULE, SCHEDULER_MODULE, ENGINE_MODULE), self._on_module)

    @property
    def recorders(self) -> list[Recorder]:
        """Those of the managers that still live, in the order in which they were built."""
        return [recorder for reference in self._recorders if (recorder := reference()) is not None]

    @property
    def patched(self) -> list[str]:
        """Names of the wrapped methods."""
        return [f"{patch.owner.__name__}.{patch.name}" for patch in self._patches]

    def install(self) -> None:
        """Wrap the methods of the classes that are there, and of the others once they are imported."""
        self._watch.start()

    def remove(self) -> None:
        """Take every wrapper off. One that somebody wrapped in turn stays, and only calls on."""
        self._watch.stop()
        self._switch.active = False
        for recorder in self.recorders:
            recorder.close()
        for patch in reversed(self._patches):
            patch.remove()
        self._patches.clear()

    def hook_manager(self, owner: type) -> None:
        """Wrap the methods of a ``KVCacheManager``."""
        self._mark(owner)
        self._wrap(owner, "__init__", self._on_manager)
        for name, make in MANAGER_HOOKS.items():
            self._wrap(owner, name, self._with_switch(make))

    def hook_pool(self, owner: type) -> None:
        """Wrap the methods of a ``BlockPool``."""
        self._mark(owner)
        for name, make in POOL_HOOKS.items():
            self._wrap(owner, name, self._with_switch(make))

    def hook_scheduler(self, owner: type) -> None:
        """Wrap the constructor of a ``Scheduler``, which knows the engine's configuration, and its end."""
        self._wrap(owner, "__init__", self._on_scheduler)
        self._wrap(owner, "shutdown", self._on_shutdown)

    def hook_engine(self, owner: type) -> None:
        """Wrap the methods of an ``EngineCore``."""
        for name, make in ENGINE_HOOKS.items():
            self._wrap(owner, name, self._with_switch(make))

    def _on_module(self, name: str, module: ModuleType) -> None:
        try:
            if name == MANAGER_MODULE:
                self.hook_manager(module.KVCacheManager)
            elif name == POOL_MODULE:
                self.hook_pool(module.BlockPool)
            elif name == SCHEDULER_MODULE:
                self.hook_scheduler(module.Scheduler)
            else:
                self.hook_engine(module.EngineCore)
        except Exception as error:
            self._switch.fail(f"hooking into {name}", error)

    def _mark(self, owner: type) -> None:
        if PROBE_ATTRIBUTE not in owner.__dict__:
            setattr(owner, PROBE_ATTRIBUTE, None)

    def _with_switch(self, make: Callable[[Method, Switch], Method]) -> Callable[[Method], Method]:
        return lambda original: make(original, self._switch)

    def _wrap(self, owner: type, name: str, make: Callable[[Method], Method]) -> None:
        patch = wrap_method(owner, name, make)
        if patch is not None:
            self._patches.append(patch)

    def _on_manager(self, original: Method) -> Method:
        def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(*args, **kwargs)
            if self._switch.active:
                try:
                    self._adopt(args[0], args[1:], kwargs)
                except Exception as error:
                    self._switch.fail("KVCacheManager", error)

        return __init__

    def _adopt(self, manager: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        shape = describe_cache(manager, arguments, keywords)
        if shape is None:
            return
        recorder = self._make_recorder(shape)
        self._recorders.append(weakref.ref(recorder))
        setattr(pool_of(manager, shape.group), PROBE_ATTRIBUTE, recorder.probe)
        setattr(manager, PROBE_ATTRIBUTE, recorder.probe)
        weakref.finalize(manager, recorder.end).atexit = False

    def _on_scheduler(self, original: Method) -> Method:
        def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(*args, **kwargs)
            if self._switch.active:
                try:
                    probe = args[0].kv_cache_manager._hitcurve_probe
                    for recorder in self.recorders:
                        if recorder.probe is probe:
                            recorder.describe(describe_engine(args[0]))
                except Exception as error:
                    self._switch.note("reading the engine's configuration", error)

        return __init__

    def _on_shutdown(self, original: Method) -> Method:
        def shutdown(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            try:
                probe = args[0].kv_cache_manager._hitcurve_probe
                for recorder in self.recorders:
                    if recorder.probe is probe:
                        recorder.close()
            except Exception as error:
                self._switch.note("the end of the engine", error)
            return result

        return shutdown
