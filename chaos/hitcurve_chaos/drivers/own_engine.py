"""Engines that a run starts for itself: it may pause them, kill them, and start them again at the same address."""

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from hitcurve.errors import HitcurveError
from hitcurve_chaos.demo.engines import RunningEngine
from hitcurve_chaos.drivers.driver import Action, DriverFailed, Ending
from hitcurve_chaos.drivers.last_words import last_words
from hitcurve_chaos.drivers.processes import descendants, environment_of, start_ticks

__all__ = ["OwnEngine"]

_CORE = "EngineCore"
_STOP_S = 20.0


class OwnEngine:
    """One engine below this process. ``launch`` starts it on a port (0: a free one) and waits until it listens."""

    def __init__(self, launch: Callable[[int], RunningEngine]) -> None:
        self._launch = launch
        self.engine = launch(0)
        self._port = urlsplit(self.engine.url).port or 0

    @property
    def can(self) -> frozenset[Action]:
        actions: set[Action] = {"pause", "stop", "kill", "start"}
        if self._core() is not None:
            actions.add("kill_core")
        return frozenset(actions)

    def record(self, action: Action) -> dict[str, Any]:
        process_id = self._process_id()
        fault = "process_paused" if action == "pause" else "process_ended"
        return {"fault": fault, "pid": process_id, "started": start_ticks(process_id), "group": True}

    def environment(self) -> Mapping[str, str]:
        return environment_of(self._process_id())

    def ending(self) -> Ending | None:
        process = self.engine.process
        if process.running:
            return None
        said = last_words(process.log)
        return Ending(
            f"ended with exit code {process.returncode}" + (f", its log says '{said}'" if said else ""),
            for_good=True,
        )

    def pause(self) -> None:
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        if self.engine.process.running:
            self._signal_group(signal.SIGCONT)

    def stop(self) -> None:
        os.kill(self._process_id(), signal.SIGTERM)
        self._ended()

    def kill(self) -> None:
        os.kill(self._process_id(), signal.SIGKILL)
        self._ended()

    def kill_core(self) -> None:
        core = self._core()
        if core is None:
            raise DriverFailed("the engine has no core process of its own")
        os.kill(core, signal.SIGKILL)

    def start(self) -> None:
        self.engine.process.stop()
        try:
            self.engine = self._launch(self._port)
        except HitcurveError as error:
            raise DriverFailed(f"the engine did not start again ({error})") from error

    def limit_memory(self, share: float) -> Mapping[str, float]:
        raise DriverFailed("a process cannot be given less memory; use the Docker driver")

    def restore_memory(self) -> None:
        """Never limited."""

    def cut_network(self) -> None:
        raise DriverFailed("a process cannot be cut off the network; use the Docker driver")

    def join_network(self) -> None:
        """Never cut."""

    def close(self) -> None:
        """End the engine for good."""
        self.resume()
        self.engine.process.stop()

    def _ended(self) -> None:
        try:
            self.engine.process.wait_end(_STOP_S)
        except HitcurveError as error:
            raise DriverFailed(str(error)) from error
        self.engine.process.stop()

    def _core(self) -> int | None:
        process_id = self.engine.process.process_id
        if process_id is None or not self.engine.process.running:
            return None
        return next((child for child, words in descendants(process_id) if _CORE in words), None)

    def _process_id(self) -> int:
        process_id = self.engine.process.process_id
        if process_id is None:
            raise DriverFailed("the engine was never started")
        return process_id

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process_id(), number)
        except ProcessLookupError:
            raise DriverFailed("the engine is not running") from None
