"""Sums over engines by model, and how far replicas lie apart."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.reading import Reading, WindowRate
from hitcurve_exporter.fleet import ModelFleet, fleet_of
from hitcurve_exporter.page.document import TEXT, page
from hitcurve_exporter.page.exporter_samples import fleet_lines


def reading(engine: str, model: str, queries: float, hits: float, *, up: bool = True) -> Reading:
    rate = hits / queries if queries else None
    windows = (WindowRate(30.0, queries, hits, rate),) if up else ()
    labels = {"model_name": model} if model else {}
    return Reading(target=engine, engine=engine, at_s=1.0, up=up, labels=labels, windows=windows)


def test_each_model_is_a_ratio_of_sums_with_the_spread_of_its_replicas() -> None:
    fleet = fleet_of(
        [
            reading("a", "chat", 100, 90),
            reading("b", "chat", 900, 90),
            reading("c", "chat", 0, 0),
            reading("d", "chat", 5, 5, up=False),
            reading("e", "code", 50, 20),
            reading("f", "", 1000, 1000),
        ]
    )
    # Chat: 180 / 1000; squared distances 0.72² · 100 + 0.08² · 900 = 57.6.
    assert fleet.models == {
        "chat": ModelFleet(4, 3, (WindowRate(30.0, 1000, 180, 0.18),), {30.0: pytest.approx(sqrt(57.6 / 1000))}),
        "code": ModelFleet(1, 1, (WindowRate(30.0, 50, 20, 0.4),), {}),
    }
    spread = fleet.models["chat"].spreads[30.0]
    text = page([fleet_lines(fleet)], TEXT).decode()
    lines = [line for line in text.splitlines() if line.startswith("hitcurve_model")]
    assert lines == [
        'hitcurve_model_hit_rate_ratio{model_name="chat",window="30s"} 0.18',
        'hitcurve_model_hit_rate_ratio{model_name="code",window="30s"} 0.4',
        f'hitcurve_model_hit_rate_spread_ratio{{model_name="chat",window="30s"}} {spread}',
        'hitcurve_model_engines{model_name="chat"} 4',
        'hitcurve_model_engines{model_name="code"} 1',
    ]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1)), min_size=2, max_size=20))
def test_the_spread_is_between_none_and_the_largest_distance(replicas: list[tuple[int, float]]) -> None:
    readings = [reading(str(n), "m", queries, queries * rate) for n, (queries, rate) in enumerate(replicas)]
    spread = fleet_of(readings).models["m"].spreads[30.0]
    rates = [rate for _, rate in replicas]
    assert -1e-9 <= spread <= (max(rates) - min(rates)) / 2 + 1e-9


def test_replicas_that_hit_alike_have_no_spread() -> None:
    fleet = fleet_of([reading("a", "m", 100, 50), reading("b", "m", 10, 5)])
    assert fleet.models["m"].spreads == {30.0: 0.0}
