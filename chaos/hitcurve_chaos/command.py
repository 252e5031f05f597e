"""``hitcurve chaos``: list the scenarios, run them, undo what a run that died has left."""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hitcurve.address import base_address
from hitcurve.errors import BadFinding, EnvironmentFailed, HitcurveError, UsageError
from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.carry_out import RunRequest, carry_out
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.console import table_console
from hitcurve_chaos.grafana import annotate
from hitcurve_chaos.junit import require_writable, write_junit
from hitcurve_chaos.markdown import require_appendable, summary, write_summary
from hitcurve_chaos.parameters import seconds
from hitcurve_chaos.progress import ConsoleProgress
from hitcurve_chaos.recover import recover as recover_run
from hitcurve_chaos.report import REPORT_FILE
from hitcurve_chaos.results import Results
from hitcurve_chaos.scenarios.registry import SCENARIOS
from hitcurve_chaos.suite import find_suite, plan_suite
from hitcurve_chaos.tables import dry_run_json, dry_run_table, recovered_table, scenario_table, verdict_table
from hitcurve_chaos.targets import choose_target, load_targets, require_allowed
from hitcurve_chaos.verdict import as_json as verdict_as_json

__all__ = ["app"]

_LARGEST_SEED = 2**31

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    epilog="Examples: 'hitcurve chaos list'; then 'hitcurve chaos run smoke --targets "
    "chaos/targets.simulated.yaml', which starts its own engine; add --dry-run to touch nothing.",
    help="Scenarios on a running engine: steady curve, fault, observation, undoing, recovery, verdict.",
)


@app.command(
    "list",
    short_help="Print the scenarios and what each expects.",
    epilog="Example: hitcurve chaos list --json",
)
def list_scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="Print the scenarios as JSON.")] = False,
) -> None:
    """Print the scenarios, what each expects of the curve, and its parameters."""
    if not as_json:
        table_console().print(scenario_table(list(SCENARIOS.values())))
        return
    scenarios = [
        {
            "name": scenario.name,
            "title": scenario.title,
            "expected": scenario.expected,
            "under_load": scenario.under_load,
            "needs": list(scenario.needs),
            "parameters": [
                {"name": p.name, "kind": p.kind, "default": p.default, "help": p.help}
                for p in scenario.all_parameters()
            ],
        }
        for scenario in SCENARIOS.values()
    ]
    print(json.dumps(scenarios, indent=1))


@app.command(
    short_help="Run a suite or scenarios on a target, and judge.",
    epilog="Examples: 'hitcurve chaos run nightly --targets targets.yaml', 'hitcurve chaos run reset-idle pause "
    "--targets chaos/targets.example.yaml --target own --out runs/tonight --markdown summary.md'",
)
def run(
    names: Annotated[
        list[str], typer.Argument(help="A suite (smoke, nightly, soak, a YAML file), or scenarios in order.")
    ],
    targets: Annotated[Path, typer.Option(help="Target file (YAML): the only engines that may be touched.")],
    target: Annotated[str | None, typer.Option(help="Which target, where the file lists several.")] = None,
    out: Annotated[Path | None, typer.Option(help="New run folder (default: runs/chaos-TIME).")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides order, prompts and names; a new one by default.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Steady for so long before the fault (15s).")] = None,
    baseline_within: Annotated[str | None, typer.Option(help="Give up on the baseline after (120s).")] = None,
    hold: Annotated[str | None, typer.Option(help="How long the fault lasts or is watched (20s).")] = None,
    recover_within: Annotated[str | None, typer.Option(help="Steady again within (60s).")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: another parameter; may be repeated.")
    ] = None,
    shuffle: Annotated[
        bool | None, typer.Option(help="Order by the seed, or as listed; by default what the suite says.")
    ] = None,
    repeat_for: Annotated[str | None, typer.Option(help="Begin again until so long has passed (4h).")] = None,
    no_skips: Annotated[bool, typer.Option("--no-skips", help="Exit 1 where a scenario could not run.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write verdicts and hypotheses as JUnit XML.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Append a summary to this file.")] = None,
    grafana: Annotated[str | None, typer.Option(help="Mark faults there (key: GRAFANA_TOKEN).")] = None,
    metrics_listen: Annotated[
        str | None, typer.Option(help="HOST:PORT of a page with hitcurve_chaos_active{scenario}.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts, or the dry run, as JSON.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; touch nothing.")] = False,
) -> None:
    """Run a suite or scenarios on a target and judge what the cache did.

    Exit code 0: every verdict is ok; 1: one is bad, no_data or invalid, or nothing could be tried; 2: wrong usage;
    3: no engine or no load.
    """
    common = {
        "baseline": baseline,
        "baseline_within": baseline_within,
        "hold": hold,
        "recover_within": recover_within,
    }
    overrides = {name: value for name, value in common.items() if value is not None} | _assignments(settings or [])
    suite = find_suite(names)
    chosen = choose_target(load_targets(targets), target)
    require_allowed(chosen)
    drawn = random.SystemRandom().randrange(_LARGEST_SEED) if seed is None else seed
    planned = plan_suite(suite, overrides, drawn, shuffled=shuffle)
    if dry_run:
        if as_json:
            print(json.dumps(dry_run_json(chosen, planned, drawn), indent=1))
        else:
            table_console().print(dry_run_table(chosen, planned))
        return
    annotated = None if grafana is None else _address(grafana)
    for file, require in ((junit, require_writable), (markdown, require_appendable)):
        if file is not None and (out is None or file.resolve().parent != out.resolve()):
            require(file)
    request = RunRequest(
        target=chosen,
        planned=planned,
        folder=out or Path("runs") / time.strftime("chaos-%Y%m%d-%H%M%S"),
        seed=drawn,
        repeat_for_s=_duration(repeat_for) if repeat_for else suite.repeat_for_s,
        metrics_listen=metrics_listen,
    )
    progress, results = ConsoleProgress(), Results()
    with _told_whatever_happens(partial(_write_files, junit, markdown, suite.title, request, results)):
        carry_out(request, progress, results)
    if as_json:
        print(json.dumps([verdict_as_json(verdict) for verdict in results.verdicts], indent=1))
    else:
        table_console().print(verdict_table(results.verdicts, results.skipped))
        print(f"run folder: {request.folder}   report: {request.folder / REPORT_FILE}")
    if annotated is not None:
        _annotate(annotated, results, progress)
    _tell_finding(results, request.folder, no_skips=no_skips)


@contextmanager
def _told_whatever_happens(write: Callable[[], None]) -> Iterator[None]:
    """``write`` when the block is left, also by Ctrl-C or an error, which then is what is told."""
    try:
        yield
    except BaseException:
        with suppress(HitcurveError):
            write()
        raise
    write()


def _write_files(
    junit: Path | None, markdown: Path | None, suite: str, request: RunRequest, results: Results
) -> None:
    """The files for a pipeline, unless nothing was tried at all."""
    target = request.target.name
    if not results.verdicts and not results.skipped:
        return
    if junit is not None:
        write_junit(junit, target, results.verdicts, results.skipped, suite=suite)
    if markdown is not None:
        write_summary(markdown, summary(suite, target, request.seed, results.verdicts, results.skipped))


def _annotate(grafana: str, results: Results, progress: ConsoleProgress) -> None:
    """Mark the faults there; where that fails, a finding that is bad goes before."""
    try:
        annotate(grafana, results.verdicts, HttpTransport())
    except EnvironmentFailed as error:
        if results.ok:
            raise
        progress.step("grafana", str(error))


def _tell_finding(results: Results, folder: Path, *, no_skips: bool) -> None:
    failed = [
        f"{verdict.scenario} is {verdict.verdict}" for verdict in results.verdicts if verdict.verdict != "ok"
    ]
    if failed:
        raise BadFinding(
            f"{len(failed)} of {len(results.verdicts)} scenarios failed: {', '.join(failed)}; see {folder}."
        )
    if not results.verdicts:
        raise BadFinding(
            f"nothing could be tried: all {len(results.skipped)} scenarios were skipped; see {folder}."
        )
    if no_skips and results.skipped:
        names = ", ".join(one.scenario for one in results.skipped)
        raise BadFinding(f"{len(results.skipped)} scenarios were skipped ({names}); see {folder}.")


@app.command(
    short_help="Undo what a run that died left behind.",
    epilog="Example: hitcurve chaos recover runs/chaos-20260101-030000",
)
def recover(
    folder: Annotated[Path, typer.Argument(help="Run folder of a run that died.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print what was undone as JSON.")] = False,
) -> None:
    """Undo the faults that a run began and, having died, did not undo.

    Exit code 0: nothing is left; 1: something could not be undone.
    """
    done = recover_run(folder, SystemClock(), HttpTransport())
    if as_json:
        rows = [
            {"scenario": d.scenario, "fault": d.fault, "restored": d.undo.restored, "sentence": d.undo.sentence}
            for d in done
        ]
        print(json.dumps(rows, indent=1))
    else:
        table_console().print(recovered_table(done) if done else "nothing was left over.")
    left = [item.scenario for item in done if not item.undo.restored]
    if left:
        raise BadFinding(f"system not restored: the faults of {', '.join(left)} were not undone; undo by hand.")


def _address(grafana: str) -> str:
    try:
        return base_address(grafana)
    except UsageError as error:
        raise UsageError(f"--grafana: {error}") from error


def _duration(text: str) -> float:
    try:
        return seconds(text)
    except ValueError:
        raise UsageError(f"--repeat-for {text} is no duration; write for example 4h.") from None


def _assignments(words: list[str]) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {word} is not NAME=VALUE; write for example --set mark=false.")
        parameters[name.strip()] = value.strip()
    return parameters
