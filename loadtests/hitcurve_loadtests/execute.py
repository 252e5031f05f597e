"""Carries out one load run: sends, measures, writes the results, and says how to exit."""

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitcurve.errors import BadFinding, EnvironmentFailed, UsageError
from hitcurve_loadtests.plan import LoadPlan
from hitcurve_loadtests.progress import ProgressLine, print_summary
from hitcurve_loadtests.records import RequestLog, RequestRecord
from hitcurve_loadtests.summary import judge

if TYPE_CHECKING:
    from hitcurve_loadtests.load_run import LoadRun

__all__ = ["REQUESTS_FILE", "run_load", "summary_file"]

REQUESTS_FILE = "requests.jsonl"


def summary_file(out: Path, name: str) -> Path:
    """Where the summary of a load of that name lies in a run folder."""
    return out / f"load-{name}.json"


def run_load(plan: LoadPlan, *, as_json: bool) -> None:
    """Run to the end, write the results, print the summary.

    BadFinding when requests failed or the results cannot be relied on, unless SIGTERM ended the run;
    KeyboardInterrupt when SIGINT did. The results are written first in either case.
    """
    from hitcurve_loadtests.load_run import LoadRun  # Imports Locust, which patches the standard library.

    settings = plan.settings
    if settings.out and summary_file(settings.out, settings.name).exists():
        raise UsageError(
            f"{settings.out} already holds the results of a load named '{settings.name}'; "
            "choose another --name or --out."
        )
    log = RequestLog(settings.out / REQUESTS_FILE) if settings.out else None
    line = ProgressLine(settings.name)

    def finished(record: RequestRecord) -> None:
        if log:
            log.append(record)

    run = LoadRun(settings, plan.profile, plan.due_times, finished)
    started_at_s = time.time()
    try:
        run.run(lambda: line.show(run.totals))
    finally:
        line.end()
        if log:
            log.close()
    summary = _summarise(plan, run, started_at_s)
    if settings.out:
        _write(summary_file(settings.out, settings.name), json.dumps(summary, indent=1))
        _write(settings.out / f"load-{settings.name}.html", run.html_report())
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary)
    _end(summary, run.stopped_by)


def _summarise(plan: LoadPlan, run: "LoadRun", started_at_s: float) -> dict[str, Any]:
    settings = plan.settings
    results = run.totals.results(run.elapsed_s)
    verdict, reasons = judge(results, settings.max_lag_s)
    return {
        "name": settings.name,
        "profile": settings.profile,
        "seed": settings.seed,
        "verdict": verdict,
        "reasons": reasons,
        "host": settings.host,
        "api": settings.api,
        "models": list(run.models),
        "arguments": plan.arguments,
        "started_at_s": started_at_s,
        "elapsed_s": run.elapsed_s,
        "max_lag_s": settings.max_lag_s,
        **results,
        "engine": asdict(run.engine_lookups) if run.engine_lookups else None,
    }


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text)
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise EnvironmentFailed(
            f"the results cannot be written to {path}: {error.strerror}; choose another --out."
        ) from error


def _end(summary: Mapping[str, Any], stopped_by: signal.Signals | None) -> None:
    if stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if stopped_by is None and summary["verdict"] != "ok":
        raise BadFinding(f"the load '{summary['name']}' is {summary['verdict']}: {'; '.join(summary['reasons'])}.")
