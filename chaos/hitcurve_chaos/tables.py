"""Tables for people: scenarios, what a dry run would do, verdicts."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, Settings
from hitcurve_chaos.recover import Recovered
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Skipped, Verdict

__all__ = ["dry_run_json", "dry_run_table", "recovered_table", "scenario_table", "verdict_table"]

_COLOURS = {"ok": "green", "bad": "red", "no_data": "yellow", "invalid": "yellow"}


def scenario_table(scenarios: Sequence[Scenario]) -> Table:
    """Scenarios with what they expect and their parameters; the last row holds those that all have."""
    table = _folding("scenario", "expected", "parameters (default)")
    for scenario in scenarios:
        table.add_row(scenario.name, scenario.expected, _parameters(scenario.parameters))
    table.add_row("all", "", _parameters(COMMON_PARAMETERS))
    return table


def dry_run_table(target: Target, planned: Sequence[tuple[Scenario, Settings]]) -> Table:
    """What would be done, in order, how it is undone, and what it means for users."""
    table = _folding("scenario", "what would be done", "undone", "safety", "with")
    table.title = escape(f"dry run on '{target.name}' at {_place(target)}; nothing was touched")
    for scenario, settings in planned:
        story = scenario.story
        own = ", ".join(f"{p.name}={settings[p.name]}" for p in scenario.parameters)
        what = f"{_before(target, scenario, settings)} {story.fault} {_after(scenario, settings)}"
        table.add_row(scenario.name, *map(escape, (what, story.rollback, story.safety, own)))
    return table


def dry_run_json(target: Target, planned: Sequence[tuple[Scenario, Settings]], seed: int) -> dict[str, Any]:
    """The same for programs."""
    return {
        "target": target.name,
        "engine": None if target.start else target.engine,
        "seed": seed,
        "load": dict(target.load) or None,
        "scenarios": [
            {
                "scenario": scenario.name,
                "under_load": scenario.under_load,
                "fault": scenario.story.fault,
                "rollback": scenario.story.rollback,
                "safety": scenario.story.safety,
                "needs": list(scenario.needs),
                "settings": dict(settings),
            }
            for scenario, settings in planned
        ],
    }


def _place(target: Target) -> str:
    return "an engine of the run's own" if target.start else target.engine


def _before(target: Target, scenario: Scenario, settings: Settings) -> str:
    if not scenario.under_load:
        return "Without a load, once the engine is idle."
    load = target.load.get("profile") or target.load.get("trace")
    under = f"Under the load {load}" if load else "Under the traffic of others"
    return f"{under}, once the curve is steady for {settings['baseline']:g} s."


def _after(scenario: Scenario, settings: Settings) -> str:
    within = f"within {settings['recover_within']:g} s"
    if not scenario.under_load:
        return f"A request is completed {within}."
    held = "Watched for" if scenario.single_blow else "Lasts"
    return f"{held} {settings['hold']:g} s; steady again {within}."


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
