"""Tables for people: scenarios, what a dry run would do, verdicts."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, Settings
from hitcurve_chaos.recover import Recovered
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Skipped, Verdict

__all__ = ["dry_run_table", "recovered_table", "scenario_table", "verdict_table"]

_COLOURS = {"ok": "green", "bad": "red", "no_data": "yellow", "invalid": "yellow"}


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Scenarios with what they expect and their parameters; the last row holds those that all have."""
    table = _folding("scenario", "expected", "parameters (default)")
    for scenario in scenarios:
        table.add_row(scenario.name, scenario.expected, _parameters(scenario.parameters))
    table.add_row("all", "", _parameters(COMMON_PARAMETERS))
    return table


def dry_run_table(target: Target, planned: Sequence[tuple[Scenario, Settings]]) -> Table:
    """What would be done, in order."""
    table = _folding("scenario", "what would be done", "with")
    table.title = f"dry run on '{target.name}' at {target.engine}; nothing was touched"
    load = target.load.get("profile") or target.load.get("trace") or "none (traffic of others)"
    for scenario, settings in planned:
        what = (
            f"{scenario.title}: background load {load}; steady for {settings['baseline']:g} s, "
            f"fault, {settings['hold']:g} s, undo, steady again within {settings['recover_within']:g} s"
        )
        own = ", ".join(f"{p.name}={settings[p.name]}" for p in scenario.parameters)
        table.add_row(scenario.name, what, own)
    return table


def verdict_table(verdicts: Sequence[Verdict], skipped: Sequence[Skipped] = ()) -> Table:
    """Verdicts, what was seen, and what kept them from being ok."""
    table = _folding("scenario", "verdict", "seen")
    for verdict in verdicts:
        problems = "".join(f"\n- {problem}" for problem in verdict.problems)
        coloured = f"[{_COLOURS[verdict.verdict]}]{verdict.verdict}[/]"
        table.add_row(verdict.scenario, coloured, escape(verdict.seen + problems))
    for one in skipped:
        table.add_row(one.scenario, "skipped", escape(one.reason))
    return table


def recovered_table(done: Sequence[Recovered]) -> Table:
    """What was left over, and whether it is undone."""
    table = _folding("scenario", "fault", "undone", "")
    for item in done:
        table.add_row(item.scenario, item.fault, "yes" if item.undo.restored else "NO", escape(item.undo.sentence))
    return table


def _folding(*columns: str) -> Table:
    """A table that breaks long words rather than cutting figures off."""
    table = Table(show_lines=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _parameters(parameters: Sequence[Parameter]) -> str:
    return "\n".join(f"{p.name} ({_default(p)}): {p.help}" for p in parameters)


def _default(parameter: Parameter) -> str:
    if parameter.kind == "duration":
        return f"{parameter.default:g}s"
    return str(parameter.default).lower()
