"""Both ends of a run: per host and engine, with a disagreement explained or no value and why."""

from typing import Any

import pytest

from hitcurve.sample import EngineSample, LookupCounters
from hitcurve_loadtests.both_ends import BothEnds, explain_host, metrics_url
from hitcurve_loadtests.engine_counters import EngineLookups

A, B = "http://a:1", "http://b:1/v1"


def sample(engine: str, queries: float, hits: float, start: float = 1.0, preempted: float = 0.0) -> EngineSample:
    lookups = LookupCounters(queries, hits)
    return EngineSample(
        engine, 0.0, 0.0, start_time_s=start, lookups=lookups, preemptions=preempted, block_size=16
    )


class Pages:
    """What each host's page shows, before and after."""

    def __init__(self, pages: dict[str, list[Any]]) -> None:
        self.pages = pages

    def __call__(self, url: str) -> Any:
        return self.pages[url].pop(0)


def ends(pages: dict[str, list[Any]], hosts: list[str]) -> BothEnds:
    both = BothEnds(hosts, None, read=Pages(pages))
    both.begin()
    both.end()
    return both


def totals(sent: int = 2, ok: int = 2, **hosts: tuple[int, int, int, int]) -> dict[str, Any]:
    names = ("query_tokens", "hit_tokens", "known", "unknown")
    of_hosts = {{"a": A, "b": B}[host]: dict(zip(names, sums, strict=True)) for host, sums in hosts.items()}
    return {"sent": sent, "ok": ok, "tokens_of_hosts": of_hosts}


def test_every_host_and_engine_has_its_row() -> None:
    both = ends(
        {
            "http://a:1/metrics": [
                (sample("0", 100, 10), sample("1", 0, 0)),
                (sample("0", 300, 110), sample("1", 100, 0)),
            ],
            "http://b:1/metrics": [(sample("0", 5, 5),), (sample("0", 105, 55),)],
        },
        [A, B],
    )
    rows = both.table(totals(a=(300, 100, 2, 0), b=(100, 50, 1, 0)))["hosts"]
    assert [(row["host"], row["client"]["hit_rate"], row["engine"]["hit_rate"]) for row in rows] == [
        (A, pytest.approx(1 / 3), pytest.approx(1 / 3)),
        (B, 0.5, 0.5),
    ]
    assert [row["explanation"] for row in rows] == [None, None]
    assert [(one["engine"], one["hit_rate"]) for one in rows[0]["engines"]] == [("0", 0.5), ("1", 0.0)]
    assert both.together().hit_rate == pytest.approx(150 / 400)
    assert both.block_size == 16


def test_a_restart_leaves_no_value_and_says_so() -> None:
    both = ends({"http://a:1/metrics": [(sample("0", 100, 10),), (sample("0", 300, 110, start=2.0),)]}, [A])
    (row,) = both.table(totals(a=(200, 100, 2, 0)))["hosts"]
    assert row["engine"]["hit_rate"] is None
    assert row["explanation"] == "the engine gives no value: an engine restarted during the run"


@pytest.mark.parametrize(
    ("client", "engine", "preemptions", "lost", "said"),
    [
        ((100, 50, 2, 0), (160, 50), 0, 0, "other traffic reached the engine during the run"),
        ((100, 50, 2, 0), (160, 50), 3, 0, "3 preemptions, whose second lookups"),
        ((100, 50, 2, 0), (160, 50), 0, 1, "1 requests were sent and not answered"),
        ((100, 50, 2, 1), (160, 50), 0, 0, "1 requests did not tell their tokens"),
        ((100, 50, 2, 0), (80, 50), 0, 0, "some requests skipped the lookup"),
        ((100, 50, 2, 0), (100, 40), 0, 0, "usage counts hits of other tiers"),
        ((0, 0, 0, 2), (100, 40), 0, 0, "no request told its cached tokens;"),
    ],
)
def test_a_disagreement_is_explained(
    client: tuple[int, ...], engine: tuple[float, float], preemptions: float, lost: int, said: str
) -> None:
    sums = dict(zip(("query_tokens", "hit_tokens", "known", "unknown"), client, strict=True))
    assert said in str(explain_host(sums, EngineLookups(*engine, 0.5), preemptions, lost))


def test_the_page_is_beside_the_api() -> None:
    assert [metrics_url(host) for host in (A, B, "http://c/base/v1/")] == [
        *("http://a:1/metrics", "http://b:1/metrics"),
        "http://c/base/metrics",
    ]


def test_the_exporters_number_stands_beside_them(load: Any, engine: Any, exporter_page: Any) -> None:
    ended = load(
        "unique", "--host", engine.url, "--users", 1, "--requests", 4, "--exporter", exporter_page, "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.summary["both_ends"]["exporter"] == {
        "engines": [{"target": "t", "engine": "0", "query_tokens": 400.0, "hit_tokens": 100.0, "hit_rate": 0.25}],
        "reason": None,
    }


def test_the_summary_says_what_the_exporter_counted(load: Any, engine: Any, exporter_page: Any) -> None:
    ended = load("unique", "--host", engine.url, "--users", 1, "--requests", 4, "--exporter", exporter_page)
    assert "\nhit rate by the exporter's counters 25.0 %\n" in ended.out, ended.err


def test_the_summary_says_that_no_exporter_answers(load: Any, engine: Any) -> None:
    words = ("unique", "--host", engine.url, "--users", 1, "--requests", 4)
    ended = load(*words, "--exporter", "http://127.0.0.1:9")
    said = "hit rate by the exporter's counters unknown (http://127.0.0.1:9/metrics: connection refused)"
    assert f"\n{said}\n" in ended.out, ended.err
