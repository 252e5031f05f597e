"""``hitcurve chaos``: list the scenarios, run them, undo what a run that died has left."""

import json
import random
import time
from pathlib import Path
from typing import Annotated

import typer

from hitcurve.errors import BadFinding, UsageError
from hitcurve_chaos.calls import HttpTransport
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.console import table_console
from hitcurve_chaos.interrupts import ended_like_interrupted
from hitcurve_chaos.junit import require_writable, write_junit
from hitcurve_chaos.progress import ConsoleProgress
from hitcurve_chaos.reachable import require_answering
from hitcurve_chaos.recover import recover as recover_run
from hitcurve_chaos.run_record import RunRecord
from hitcurve_chaos.runner import plan, run_scenarios
from hitcurve_chaos.scenarios.registry import SCENARIOS
from hitcurve_chaos.tables import dry_run_table, recovered_table, scenario_table, verdict_table
from hitcurve_chaos.targets import choose_target, load_targets, require_allowed
from hitcurve_chaos.verdict import as_json as verdict_as_json

__all__ = ["app"]

_LARGEST_SEED = 2**31

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    no_args_is_help=True,
    help="Scenarios on a running engine: steady curve, fault, observation, undoing, recovery, verdict.",
)


@app.command("list", epilog="Example: hitcurve chaos list --json")
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
            "parameters": [
                {"name": p.name, "kind": p.kind, "default": p.default, "help": p.help}
                for p in scenario.all_parameters()
            ],
        }
        for scenario in SCENARIOS.values()
    ]
    print(json.dumps(scenarios, indent=1))


@app.command(
    epilog="Example: hitcurve chaos run reset-prefix-cache pool-pressure --targets chaos/targets.example.yaml "
    "--target local --baseline 15s --hold 20s --out runs/tonight"
)
def run(
    scenarios: Annotated[list[str], typer.Argument(help="Scenarios, in order; see 'hitcurve chaos list'.")],
    targets: Annotated[Path, typer.Option(help="Target file (YAML): the only engines that may be touched.")],
    target: Annotated[str | None, typer.Option(help="Which target, where the file lists several.")] = None,
    out: Annotated[Path | None, typer.Option(help="New run folder (default: runs/chaos-TIME).")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides prompts and names; a new one unless given.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Steady for so long before the fault (15s).")] = None,
    baseline_within: Annotated[str | None, typer.Option(help="Give up on the baseline after (120s).")] = None,
    hold: Annotated[str | None, typer.Option(help="How long the fault lasts or is watched (20s).")] = None,
    recover_within: Annotated[str | None, typer.Option(help="Steady again within (60s).")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: another parameter; may be repeated.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write the verdicts as JUnit XML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; touch nothing.")] = False,
) -> None:
    """Run scenarios on a target and judge what the curve did.

    Exit code 0: every verdict is ok; 1: one is bad, no_data or invalid; 2: wrong usage; 3: no engine or no load.
    """
    common = {
        "baseline": baseline,
        "baseline_within": baseline_within,
        "hold": hold,
        "recover_within": recover_within,
    }
    parameters = {name: value for name, value in common.items() if value is not None} | _assignments(
        settings or []
    )
    chosen = choose_target(load_targets(targets), target)
    require_allowed(chosen)
    planned = plan(scenarios, parameters)
    if dry_run:
        table_console().print(dry_run_table(chosen, planned))
        return
    drawn = random.SystemRandom().randrange(_LARGEST_SEED) if seed is None else seed
    folder = out or Path("runs") / time.strftime("chaos-%Y%m%d-%H%M%S")
    transport = HttpTransport()
    chosen.admin_headers()
    if junit is not None and junit.resolve().parent != folder.resolve():
        require_writable(junit)
    require_answering(chosen, transport)
    record = RunRecord(folder, chosen, scenarios, drawn, transport, SystemClock())
    with ended_like_interrupted(), record:
        verdicts = run_scenarios(chosen, scenarios, folder, drawn, parameters, ConsoleProgress())
    if junit is not None:
        write_junit(junit, chosen.name, verdicts)
    if as_json:
        print(json.dumps([verdict_as_json(verdict) for verdict in verdicts], indent=1))
    else:
        table_console().print(verdict_table(verdicts))
        print(f"run folder: {folder}   report: hitcurve report {folder}")
    failed = [f"{verdict.scenario} is {verdict.verdict}" for verdict in verdicts if verdict.verdict != "ok"]
    if failed:
        raise BadFinding(f"{len(failed)} of {len(verdicts)} scenarios failed: {', '.join(failed)}; see {folder}.")


@app.command(epilog="Example: hitcurve chaos recover runs/chaos-20260101-030000")
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


def _assignments(words: list[str]) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {word} is not NAME=VALUE; write for example --set mark=false.")
        parameters[name.strip()] = value.strip()
    return parameters
