"""Carries out one load run: sends, measures, writes the results, and says how to exit."""

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitcurve.errors import BadFinding, EnvironmentFailed, UsageError
from hitcurve.whole_file import write_whole
from hitcurve_loadtests.both_ends import BothEnds
from hitcurve_loadtests.intended import Intended, intended
from hitcurve_loadtests.plan import LoadPlan
from hitcurve_loadtests.progress import ProgressLine, print_intended, print_summary
from hitcurve_loadtests.records import RequestLog
from hitcurve_loadtests.summary import RunTotals, judge
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.workers import WorkerProcesses

if TYPE_CHECKING:
    from hitcurve_loadtests.load_run import LoadRun

__all__ = ["REQUESTS_FILE", "run_load", "summary_file"]

REQUESTS_FILE = "requests.jsonl"
_INTENDED_REQUESTS = 500
"""How many requests are played to work out the intended ratio, where the run names no number."""


def summary_file(out: Path, name: str) -> Path:
    """Where the summary of a load of that name lies in a run folder."""
    return out / f"load-{name}.json"


def run_load(plan: LoadPlan, *, as_json: bool) -> None:
    """Run to the end, write the results, print the summary.

    BadFinding when requests failed or the results cannot be relied on, unless SIGTERM ended the run;
    KeyboardInterrupt when SIGINT did. The results are written first in either case.
    """
    from hitcurve_loadtests.load_run import LoadRun, soon  # Imports Locust, which patches the standard library.
    from hitcurve_loadtests.locust_report import html_report

    settings = plan.settings
    if settings.out and summary_file(settings.out, settings.name).exists():
        raise UsageError(
            f"{settings.out} already holds the results of a load named '{settings.name}'; "
            "choose another --name or --out."
        )
    log = RequestLog(settings.out / REQUESTS_FILE, soon) if settings.out else None
    line = ProgressLine(settings.name)
    run = LoadRun(plan, log.append if log else lambda record: None)
    ends = BothEnds(settings.hosts, settings.exporter)
    run.prepare()
    ends.begin()
    aim = _intended(plan, run.texts, ends.block_size)
    if not as_json:
        print_intended(asdict(aim) if aim else None)
    started_at_s = time.time()
    try:
        if plan.options.processes > 1:
            WorkerProcesses(plan.options, run).run()
        else:
            run.run(lambda: line.show(run.totals))
    finally:
        line.end()
        if log:
            log.close()
    summary = _summarise(plan, run, ends, aim, started_at_s)
    if settings.out:
        _write(summary_file(settings.out, settings.name), json.dumps(summary, indent=1))
        _write(settings.out / f"load-{settings.name}.html", html_report(run.environment, summary))
        if plan.options.parquet:
            from hitcurve_loadtests.parquet_file import write_parquet

            write_parquet(settings.out / REQUESTS_FILE, settings.name)
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary)
    _end(summary, run.stopped_by)


def _intended(plan: LoadPlan, texts: Texts, block_size: int | None) -> Intended | None:
    """Play the traffic from its beginning; the run's own stays where it is."""
    settings = plan.settings
    return intended(
        plan.make_traffic(texts),
        texts,
        chat=settings.api == "chat",
        requests=settings.requests or _INTENDED_REQUESTS,
        warm_up=settings.warm_up,
        block_size=block_size,
    )


def _summarise(
    plan: LoadPlan, run: "LoadRun", ends: BothEnds, aim: Intended | None, started_at_s: float
) -> dict[str, Any]:
    settings = plan.settings
    results = run.totals.results(run.elapsed_s)
    verdict, reasons = judge(results, settings.max_lag_s)
    ends.end()
    return {
        "name": settings.name,
        "profile": settings.profile,
        "seed": settings.seed,
        "verdict": verdict,
        "reasons": reasons,
        "host": settings.host,
        "hosts": list(settings.hosts),
        "api": settings.api,
        "models": list(run.models),
        "tokens_of": run.tokens_of,
        "arguments": plan.arguments,
        "started_at_s": started_at_s,
        "elapsed_s": run.elapsed_s,
        "max_lag_s": settings.max_lag_s,
        "intended": _checked(aim, run.totals),
        **results,
        "engine": asdict(ends.together()),
        "both_ends": ends.table(run.totals.as_json()),
    }


def _checked(aim: Intended | None, totals: RunTotals) -> dict[str, Any] | None:
    """The intention, and how far the prompts came out longer than intended, in tokens of a prompt."""
    if aim is None:
        return None
    return {**asdict(aim), "prompt_tokens_off": totals.prompt_tokens_off()}


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise EnvironmentFailed(
            f"the results cannot be written to {path}: {error.strerror}; choose another --out."
        ) from error


def _end(summary: Mapping[str, Any], stopped_by: signal.Signals | None) -> None:
    if stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if stopped_by is None and summary["verdict"] != "ok":
        raise BadFinding(f"the load '{summary['name']}' is {summary['verdict']}: {'; '.join(summary['reasons'])}.")
