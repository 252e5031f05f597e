"""The last hour of a curve: what is kept, and the API that tells it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.curve import Episode
from hitcurve.reading import CurveState, Cut, Interval, Reading
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.scraping.curve_history import CurveHistory, CurvePoint

Start = Callable[..., Any]
T0 = 1_800_000_000.0
STEADY = CurveState("steady", None, T0, {"rate": 0.5})
COLLAPSED = CurveState("collapsed", "reset", T0 + 30, {"rate": 0.0})


def reading(at_s: float, queries: float | None = None, hits: float | None = None, **others: Any) -> Reading:
    interval = None
    if queries is not None and hits is not None:
        interval = Interval(at_s - 15, at_s, queries, hits, hits / queries if queries else None)
    return replace(Reading(target="t", engine="0", at_s=at_s, up=True, interval=interval), **others)


def test_points_states_cuts_failures_and_episodes_are_kept() -> None:
    history = CurveHistory()
    episode = Episode(T0 + 30, None, 0.5, 50.0, "reset")
    history.add(reading(T0, state=STEADY, cuts=(Cut(T0, "start"),)), ())
    history.add(reading(T0 + 15, 100, 50, state=STEADY), ())
    history.add(reading(T0 + 30, 100, 0, state=COLLAPSED, cuts=(Cut(T0 + 30, "reset"),)), (episode,))
    history.add(reading(T0 + 45, up=False, failure="HTTP 500", state=COLLAPSED), (episode,))
    history.add(reading(T0 + 60, 0, 0), (episode,))
    history.add(reading(T0 + 75, interval=Interval(T0 + 60, T0 + 75, None, None, 0.25)), (episode,))
    assert list(history.points(0)) == [
        CurvePoint(T0, T0 + 15, 100, 50, 0.5, "steady"),
        CurvePoint(T0 + 15, T0 + 30, 100, 0, 0.0, "collapsed"),
        CurvePoint(T0 + 45, T0 + 60, 0, 0, None, None),
        CurvePoint(T0 + 60, T0 + 75, None, None, 0.25, None),
    ]
    assert [point.to_s for point in history.points(T0 + 30)] == [T0 + 60, T0 + 75]
    assert list(history.states) == [(T0, STEADY), (T0 + 30, COLLAPSED)]
    assert list(history.cuts) == [Cut(T0, "start"), Cut(T0 + 30, "reset")]
    assert list(history.failed) == [(T0 + 45, "HTTP 500")]
    assert history.episodes == (episode,)


@given(st.lists(st.floats(0.1, 900), min_size=1, max_size=300))
def test_an_hour_is_kept_and_hardly_more(steps: list[float]) -> None:
    history, at_s, ends = CurveHistory(), T0, []
    for step_s in steps:
        at_s += step_s
        history.add(reading(at_s, 10, 5), ())
        ends.append(at_s)
    assert [point.to_s for point in history.points(at_s - 3600)] == [end for end in ends if end > at_s - 3600]
    kept = list(history.points(0))
    assert len([point for point in kept if point.to_s <= at_s - 3600]) < 16


def test_many_points_of_a_short_interval_are_bounded() -> None:
    history = CurveHistory()
    for number in range(10_000):
        history.add(reading(T0 + number / 10, 10, 5, state=STEADY, cuts=(Cut(T0, "reset"),)), ())
    assert 4_096 <= len(list(history.points(0))) < 4_096 + 16
    assert len(history.cuts) == 128


def test_the_api_tells_the_curve_of_one_engine(
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Callable[..., Any],
    page_of: Callable[..., str],
    watching: Callable[..., ExporterConfig],
) -> None:
    engine = scripted_engine(page_of(1000, 500, 10))
    named = TargetConfig(engine.url, f"{engine.url}/metrics", "team/chat 0")
    exporter = start_exporter(watching(engine.url, targets=(named,)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    engine.page = page_of(1100, 590, 11)
    engine.scraped_again()
    for name in ("team/chat 0/0", "team/chat 0"):
        curve = exporter.ask(f"/api/v1/engines/{quote(name, safe='')}/curve?window=5m").json()
        assert (curve["target"], curve["engine"], curve["up"], curve["window_s"]) == (
            "team/chat 0",
            "0",
            True,
            300,
        )
        assert curve["labels"] == {"engine": "0", "model_name": "tiny"}
        points = curve["points"]
        assert sum(point["queries"] for point in points) == 100
        assert sum(point["hits"] for point in points) == 90
        assert [point["hit_rate"] for point in points if point["queries"]] == [0.9]
        assert all(before["to_s"] == after["from_s"] for before, after in pairwise(points))
        assert [cut["kind"] for cut in curve["cuts"]] == ["start"]
        assert curve["states"][-1]["state"] == curve["state"]["state"]
        assert curve["failed_scrapes"] == []
    engine.status = 500
    engine.scraped_again()
    curve = exporter.ask(f"/api/v1/engines/{quote('team/chat 0', safe='')}/curve").json()
    assert (curve["up"], curve["window_s"], curve["failed_scrapes"][0]["reason"]) == (False, 3600, "HTTP 500")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (
            "nobody/curve",
            404,
            "no engine of that name is watched; see /api/v1/engines, and name it TARGET/ENGINE.",
        ),
        ("pair/curve", 404, "name one engine of this target as TARGET/ENGINE; its engines are 0, 1."),
        ("pair/curve?window=soon", 400, "'window' must be a duration such as 1h."),
        ("pair/curve?window=61m", 400, "'window' must be at most 1h, which is what is kept."),
    ],
)
def test_what_cannot_be_told_is_said_in_words(
    path: str,
    status: int,
    words: str,
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Callable[..., Any],
    page_of: Callable[..., str],
    watching: Callable[..., ExporterConfig],
) -> None:
    engine = scripted_engine(page_of(1, 0) + page_of(1, 0, engine="1"))
    named = TargetConfig(engine.url, f"{engine.url}/metrics", "pair")
    exporter = start_exporter(watching(engine.url, targets=(named,)))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    answer = exporter.ask(f"/api/v1/engines/{path}")
    assert (answer.status, answer.json()) == (status, {"error": words})
