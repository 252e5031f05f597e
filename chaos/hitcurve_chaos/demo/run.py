"""The run behind the demo: start engine and exporter, run the scenarios, compare, report, end everything."""

import json
import os
import platform
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hitcurve import __version__
from hitcurve.errors import UsageError
from hitcurve.reading import Reading, reading_from_json
from hitcurve.whole_file import write_whole
from hitcurve_chaos.demo.agreement import Agreement, agreement, final_reading
from hitcurve_chaos.demo.engines import RunningEngine, start_simulated, start_vllm
from hitcurve_chaos.demo.exporter import exporter_configuration, start_exporter
from hitcurve_chaos.demo.settings import DemoSettings
from hitcurve_chaos.progress import ConsoleProgress, Progress
from hitcurve_chaos.report import write_report
from hitcurve_chaos.report.run_folder import load_run_folder
from hitcurve_chaos.run_lock import make_run_folder
from hitcurve_chaos.runner import plan, run_scenarios
from hitcurve_chaos.targets import Adapter, Target
from hitcurve_chaos.verdict import Verdict
from hitcurve_chaos.verdict import as_json as verdict_json

__all__ = ["DemoResult", "run_demo"]

DRAINED_S = 30.0


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What came of a demo."""

    verdicts: Sequence[Verdict]
    agreement: Agreement
    report: Path

    @property
    def ok(self) -> bool:
        return bool(self.verdicts) and all(v.verdict == "ok" for v in self.verdicts) and self.agreement.holds

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "verdicts": [verdict_json(verdict) for verdict in self.verdicts],
            "agreement": self.agreement.as_json(),
            "report": str(self.report),
        }


def run_demo(
    kind: str,
    folder: Path,
    seed: int,
    scenarios: Sequence[str],
    settings: DemoSettings,
    progress: Progress | None = None,
) -> DemoResult:
    """Run the demo into a new folder.

    Whatever happens, the processes it started are ended; an interrupted run keeps its records, and its report can
    be built from them.
    """
    plan(scenarios, settings.parameters)
    progress = progress or ConsoleProgress()
    folder = _new_folder(folder)
    with ExitStack() as stack:
        progress.step("demo", "starting the simulated engine" if kind == "sim" else "starting vLLM (about 30 s)")
        # On few cores a model on the CPU would take time from the load generator, which then measures itself.
        start = start_simulated if kind == "sim" else partial(start_vllm, niceness=10)
        engine = start(
            folder / "logs" / "engine.log",
            block_size=settings.block_size,
            pool_blocks=settings.pool_blocks,
            seed=seed,
            options=settings.engine_options,
        )
        stack.callback(engine.process.stop)
        progress.step("demo", f"engine at {engine.url}")
        configuration = exporter_configuration(engine.url, settings)
        exporter, exporter_url = start_exporter(folder, configuration)
        stack.callback(exporter.stop)
        progress.step("demo", f"exporter at {exporter_url}")
        record = _record(engine, configuration, settings, scenarios, seed)
        _write_json(folder / "run.json", record)
        verdicts = run_scenarios(
            _target(engine, exporter_url, settings), scenarios, folder, seed, settings.parameters, progress
        )
        last = final_reading(lambda: _reading(exporter_url), time.time(), DRAINED_S)
    compared = agreement(last, load_run_folder(folder).requests)
    _write_json(folder / "run.json", {**record, "finished_at_s": time.time(), "agreement": compared.as_json()})
    return DemoResult(verdicts, compared, write_report(folder))


def _new_folder(folder: Path) -> Path:
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise UsageError(f"{folder} is not an empty folder; name another one with --out.")
    make_run_folder(folder)
    return folder


def _target(engine: RunningEngine, exporter_url: str, settings: DemoSettings) -> Target:
    return Target(
        name="demo",
        engine=engine.url,
        model=engine.model,
        exporter=exporter_url,
        load=settings.load(),
        adapters=[Adapter(name, path) for name, path in engine.adapters],
    )


def _record(
    engine: RunningEngine,
    configuration: dict[str, Any],
    settings: DemoSettings,
    scenarios: Sequence[str],
    seed: int,
) -> dict[str, Any]:
    return {
        "hitcurve_version": __version__,
        "seed": seed,
        "started_at_s": time.time(),
        "finished_at_s": None,
        "engine": {
            "kind": engine.kind,
            "version": engine.version,
            "url": engine.url,
            "model": engine.model,
            "block_size": settings.block_size,
            "pool_blocks": settings.pool_blocks,
            "arguments": list(engine.arguments),
        },
        "exporter": configuration,
        "load": [{"name": "background", "profile": settings.load()["profile"], "arguments": settings.load()}],
        "scenarios": list(scenarios),
        "parameters": dict(settings.parameters),
        "machine": {
            "platform": platform.platform(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }


def _reading(exporter_url: str) -> Reading:
    with urllib.request.urlopen(f"{exporter_url}/api/v1/engines", timeout=5) as answer:
        (engine,) = json.load(answer)["engines"]
    return reading_from_json(engine)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=1) + "\n")
