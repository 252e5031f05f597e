"""What the report and Locust's tab say of a run."""

from typing import Any

import pytest

from hitcurve_loadtests.report_section import figure_rows, report_section
from hitcurve_loadtests.summary import RunTotals, judge


def results_of(lag_s: float) -> dict[str, Any]:
    totals = RunTotals()
    totals.hub_lagged(lag_s)
    results = totals.results(1.0)
    verdict, reasons = judge(results, 0.1)
    return {"verdict": verdict, "reasons": reasons, **results}


@pytest.mark.parametrize(
    ("lag_s", "told"),
    [
        (0.0, "no_data: no request finished"),
        (
            0.5,
            "invalid: the load generator lagged: its event loop was blocked by 0.500 s at p99, the limit is 0.1 s",
        ),
    ],
)
def test_whoever_looks_at_the_figures_sees_first_whether_they_hold(lag_s: float, told: str) -> None:
    results = results_of(lag_s)
    assert figure_rows(results)[0] == ("verdict", told)
    assert f"<td>verdict</td><td>{told}</td>" in report_section(results, "t")


def test_a_good_run_has_its_word_and_no_row_of_a_schedule_it_does_not_have() -> None:
    rows = dict(figure_rows({**results_of(0.0), "verdict": "ok", "reasons": []}))
    assert rows["verdict"] == "ok"
    assert rows["hit rate (cached / prompt tokens, clients)"] == "unknown"
    assert rows["TTFT p50 (0 requests)"] == "–"
    assert "sent late p99" not in rows
