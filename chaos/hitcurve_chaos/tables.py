"""Tables for people: scenarios, what a dry run would do, verdicts."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, Settings
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Verdict

__all__ = ["dry_run_table", "scenario_table", "verdict_table"]

_COLOURS = {"ok": "green", "bad": "red", "no_data": "yellow", "invalid": "yellow"}


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Scenarios with what they expect and their parameters; the last row holds those that all have."""
    table = Table("scenario", "expected", "parameters (default)", show_lines=True)
    for scenario in scenarios:
        table.add_row(scenario.name, scenario.expected, _parameters(scenario.parameters))
    table.add_row("all", "", _parameters(COMMON_PARAMETERS))
    return table


def dry_run_table(target: Target, planned: Sequence[tuple[Scenario, Settings]]) -> Table:
    """What would be done, in order."""
    table = Table("scenario", "what would be done", "with", show_lines=True)
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


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Verdicts, what was seen, and what kept them from being ok."""
    table = Table(show_lines=True)
    for column in ("scenario", "verdict", "seen"):
        table.add_column(column, overflow="fold", no_wrap=column != "seen")
    for verdict in verdicts:
        problems = "".join(f"\n- {problem}" for problem in verdict.problems)
        coloured = f"[{_COLOURS[verdict.verdict]}]{verdict.verdict}[/]"
        table.add_row(verdict.scenario, coloured, escape(verdict.seen + problems))
    return table


def _parameters(parameters: Sequence[Parameter]) -> str:
    return "\n".join(f"{p.name} ({_default(p)}): {p.help}" for p in parameters)


def _default(parameter: Parameter) -> str:
    if parameter.kind == "duration":
        return f"{parameter.default:g}s"
    return str(parameter.default).lower()
