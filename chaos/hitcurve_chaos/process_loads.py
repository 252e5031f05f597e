"""Loads as ``hitcurve load`` processes, with the settings of the target file as their options."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.load_words import load_words
from hitcurve_chaos.request_tail import BACKGROUND
from hitcurve_chaos.targets import Target
from hitcurve_loadtests.process import LoadProcess

__all__ = ["ProcessLoads"]

_FIRST_SUCCESS_S = 60.0
_PATIENCE_S = 20.0


class ProcessLoads:
    """Starts loads against one target, into one run folder."""

    def __init__(self, target: Target, folder: Path, seed: int) -> None:
        self._target = target
        self._folder = folder
        self._seed = seed

    def start(self, name: str, settings: Mapping[str, Any]) -> "_ProcessLoad":
        """Start a load; the background load is waited for until one of its requests succeeded."""
        merged = {"model": self._target.model, "seed": self._seed, **settings}
        load = LoadProcess(load_words(self._target.engine, merged), out=self._folder, name=name).start()
        if name == BACKGROUND:
            try:
                load.wait_first_success(_FIRST_SUCCESS_S)
            except BaseException:
                load.__exit__(None, None, None)
                raise
        return _ProcessLoad(load)


class _ProcessLoad:
    def __init__(self, load: LoadProcess) -> None:
        self._load = load

    def problem(self) -> str | None:
        if self._load.running:
            return None
        return f"the load '{self._load.name}' ended by itself with code {self._load.returncode}"

    def await_effect(self) -> None:
        with suppress(EnvironmentFailed):
            self._load.wait_first_success(_PATIENCE_S)

    def stop(self) -> None:
        try:
            self._load.stop()
        except EnvironmentFailed:
            # It was ended before it had begun; there is no summary to read.
            return
