"""``run.json`` of a chaos run: what was run, on what, with which settings and seed (docs/run_folder.md)."""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hitcurve import __version__
from hitcurve.errors import UsageError
from hitcurve.whole_file import write_whole
from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.request_tail import BACKGROUND
from hitcurve_chaos.run_lock import make_run_folder
from hitcurve_chaos.targets import Target

__all__ = ["RunRecord"]

_RUN_FILE = "run.json"


class RunRecord:
    """Writes ``run.json`` when entered and completes it with the time of the end when left."""

    def __init__(
        self, folder: Path, target: Target, scenarios: Sequence[str], seed: int, transport: Transport, clock: Clock
    ) -> None:
        self._folder = folder
        self._target = target
        self._scenarios = list(scenarios)
        self._seed = seed
        self._transport = transport
        self._clock = clock
        self._values: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if (self._folder / _RUN_FILE).exists():
            raise UsageError(f"{self._folder} already holds a run; name a new folder with --out.")
        make_run_folder(self._folder)
        target = self._target
        arguments = {key: value for key, value in target.load.items() if key != "profile"}
        profile = target.load.get("profile") or "trace"
        self._values = {
            "hitcurve_version": __version__,
            "seed": self._seed,
            "started_at_s": self._clock.now(),
            "finished_at_s": None,
            "engine": {
                "kind": "unknown",
                "version": self._engine_version(),
                "url": target.engine,
                "model": target.model,
                "arguments": [],
            },
            "exporter": {"url": target.exporter} if target.exporter else None,
            "load": [{"name": BACKGROUND, "profile": profile, "arguments": arguments}] if target.load else [],
            "scenarios": self._scenarios,
            "machine": {
                "platform": platform.platform(),
                "python": platform.python_version(),
                "cpus": os.cpu_count(),
            },
        }
        self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._values["finished_at_s"] = self._clock.now()
        self._write()

    def _engine_version(self) -> str | None:
        try:
            answer = self._transport.send("GET", f"{self._target.engine}/version", timeout_s=5.0)
        except NoAnswer:
            return None
        values = answer.json()
        version = values.get("version") if isinstance(values, dict) else None
        return str(version) if version else None

    def _write(self) -> None:
        write_whole(self._folder / _RUN_FILE, json.dumps(self._values, indent=1, default=str) + "\n")
