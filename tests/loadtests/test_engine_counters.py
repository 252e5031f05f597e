"""The engine's own hit rate over a run: all of it, or no value and why."""

from dataclasses import asdict
from typing import Any

import pytest

from hitcurve.sample import EngineSample, LookupCounters
from hitcurve_loadtests.engine_counters import engine_lookups, lookups_during_run, read_engine


def sample(
    queries: float, hits: float, *, engine: str = "0", start_s: float | None = 5.0, **unit: Any
) -> EngineSample:
    lookups = LookupCounters(queries, hits, **unit)
    return EngineSample(engine=engine, at_s=0.0, monotonic_s=0.0, start_time_s=start_s, lookups=lookups)


BLOCKS: dict[str, Any] = {"unit": "blocks", "tokens_per_unit": 16}
UNKNOWN_BLOCKS: dict[str, Any] = {"unit": "blocks", "tokens_per_unit": None}


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [
        ([sample(10, 5)], [sample(110, 30)], (100, 25, 0.25, None)),
        ([sample(10, 5, **BLOCKS)], [sample(20, 10, **BLOCKS)], (160, 80, 0.5, None)),
        ([sample(1, 1, **UNKNOWN_BLOCKS)], [sample(5, 2, **UNKNOWN_BLOCKS)], (None, None, 0.25, None)),
        ([sample(10, 5)], [sample(10, 5)], (0, 0, None, "the engine looked nothing up")),
        ([sample(10, 5)], [sample(9, 5)], (None, None, None, "a counter fell during the run")),
        ([sample(10, 5)], [sample(20, 4)], (None, None, None, "a counter fell during the run")),
        ([sample(10, 5)], [sample(20, 6, start_s=9.0)], (None, None, None, "an engine restarted during the run")),
        (
            [sample(10, 5)],
            [sample(20, 6, **BLOCKS)],
            (None, None, None, "the unit of the counters changed during the run"),
        ),
        (
            [sample(10, 5)],
            [sample(20, 6), sample(1, 1, engine="1")],
            (None, None, None, "the page shows other engines after the run than before it"),
        ),
    ],
)
def test_lookups_during_a_run(before: Any, after: Any, right: tuple[Any, ...]) -> None:
    assert tuple(asdict(lookups_during_run(before, after)).values()) == right


def test_a_page_that_cannot_be_read_leaves_no_value(engine: Any) -> None:
    page = read_engine(f"{engine.url}/v1/models")
    assert isinstance(page, str)
    assert page.startswith(f"{engine.url}/v1/models: ")
    assert engine_lookups(page, (sample(1, 1),)).reason == page
    assert engine_lookups((sample(1, 1),), page).hit_rate is None
    refused = read_engine("http://127.0.0.1:1/metrics")
    assert isinstance(refused, str)
