"""The page of a scenario in ``docs/scenarios/``, written from the scenario itself: ``python -m … FOLDER``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from hitcurve_chaos.correctness import ANSWERED, COMPARED, WORST
from hitcurve_chaos.hypothesis import Expectation
from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, resolve
from hitcurve_chaos.scenarios.registry import SCENARIOS
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.suite import SUITES, find_suite

__all__ = ["index", "main", "page"]

_LOAD_STATE = (
    "The curve is `steady` for `baseline` seconds within `baseline_within`, with the background load running, at "
    "least one of its requests answered and none failed."
)
_DRILL_STATE = (
    "The engine completes a request, and its counters stand still for 0.2 s while the run sends nothing: nobody "
    "else uses it. Waited for at most `baseline_within`."
)
_LOAD_RECOVERY = (
    "Within `recover_within` of the end of the fault (or of a blow) the curve is `steady` at `recovered_share` "
    "of its baseline rate, and a request was completed."
)
_DRILL_RECOVERY = (
    "Within `recover_within` a request is completed, and KV usage is back where it was, read right after a "
    "request; no value of it is let off."
)


def page(scenario: Scenario) -> str:
    """Markdown: hypothesis, fault, signature, recovery, rollback, safety, parameters, needs."""
    settings = resolve(scenario.all_parameters(), {})
    load, story = scenario.under_load, scenario.story
    expectations = [*WORST, COMPARED, ANSWERED, *scenario.expectations(settings)]
    kind = "judged by the curve, under load" if load else "drill on an idle engine"
    lines = [
        f"# {scenario.title}",
        "",
        f"`hitcurve chaos run {scenario.name} --targets FILE` · {kind} · in {_suites(scenario.name)}",
        "",
        scenario.expected,
        "",
        *_section("Steady state before", _LOAD_STATE if load else _DRILL_STATE),
        *_section("Fault", story.fault),
        *_section("Expected", _table(expectations)),
        *_section("The fault has bitten where", _table(scenario.conditions, unknown="invalid")),
        *_section("Signature", story.signature),
        *_section("Recovery", _LOAD_RECOVERY if load else _DRILL_RECOVERY),
        *_section("Rollback", story.rollback),
        *_section("Safety", story.safety),
        *_section("Parameters", _parameters(scenario.parameters)),
        *_section("Skipped unless the target has", ", ".join(f"`{need}`" for need in scenario.needs)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def index() -> str:
    """Markdown of ``README.md``: all scenarios, and the parameters that all have."""
    rows = [
        f"| [`{s.name}`]({s.name}.md) | {s.title} | {'load' if s.under_load else 'drill'} | {_suites(s.name)} |"
        for s in SCENARIOS.values()
    ]
    return "\n".join(
        [
            "# Scenarios",
            "",
            "Written from the scenarios: `python -m hitcurve_chaos.scenario_page docs/scenarios`. How a run "
            "goes, what verdicts mean and what the correctness probe does is told in [chaos.md](../chaos.md).",
            "",
            "| scenario | | under | suites |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Parameters of all",
            "",
            _parameters(COMMON_PARAMETERS),
            "",
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Write every page and the index into the folder that is named."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, scenario in SCENARIOS.items():
        (folder / f"{name}.md").write_text(page(scenario), encoding="utf-8")
    (folder / "README.md").write_text(index(), encoding="utf-8")
    return 0


def _section(title: str, text: str) -> list[str]:
    return [f"## {title}", "", text, ""] if text else []


def _table(expectations: Sequence[Expectation], unknown: str = "no_data") -> str:
    if not expectations:
        return ""
    rows = [
        f"| `{e.name}` | {e.meaning} | {e.tolerance.describe()} (`{e.tolerance.kind}`) | "
        f"{'let off' if e.optional else unknown} |"
        for e in expectations
    ]
    return "\n".join(["| number | | tolerance | no value |", "|---|---|---|---|", *rows])


def _parameters(parameters: Sequence[Parameter]) -> str:
    if not parameters:
        return ""
    rows = [f"| `{p.name}` | {_shown(p)} | {p.help} |" for p in parameters]
    return "\n".join(["| name | default | |", "|---|---|---|", *rows])


def _shown(parameter: Parameter) -> str:
    return f"{parameter.default:g}s" if parameter.kind == "duration" else str(parameter.default).lower()


def _suites(name: str) -> str:
    found = [suite for suite in SUITES if name in [entry.scenario for entry in find_suite([suite]).scenarios]]
    return ", ".join(f"`{suite}`" for suite in found) or "no built-in suite"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
