"""Where ``watch`` reads from, with a scripted network."""

import json
from collections.abc import Callable

import pytest

from hitcurve.errors import UsageError
from hitcurve.reading import CurveState, Interval, Reading, WindowRate, as_json
from hitcurve.scrape import Scrape
from hitcurve.watch.replica import as_document
from hitcurve.watch.sources import Watched

PAGE = """# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {queries}
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {hits}
"""
EXPORTER_PAGE = "# TYPE hitcurve_build_info gauge\nhitcurve_build_info 1\n"


class Network:
    """Answers by address; a clock that moves 5 s per round."""

    def __init__(self) -> None:
        self.answers: dict[str, str | int | None] = {}
        self.at_s = 1000.0
        self.asked: list[str] = []

    def fetch(self, url: str, timeout_s: float, max_bytes: int) -> Scrape:
        self.asked.append(url)
        answer = self.answers.get(url)
        if answer is None:
            return Scrape(self.at_s, self.at_s, url, error="connection refused")
        if isinstance(answer, int):
            return Scrape(self.at_s, self.at_s, url, answer, b"", "text/plain")
        return Scrape(self.at_s, self.at_s, url, 200, answer.encode(), "text/plain; version=0.0.4")

    def watched(self, *urls: str) -> Watched:
        return Watched(urls, windows_s=(60.0,), timeout_s=1.0, fetch=self.fetch, wall=lambda: self.at_s)


@pytest.fixture
def network() -> Network:
    return Network()


def test_an_engine_read_twice_has_a_rate_and_a_curve(network: Network) -> None:
    watched = network.watched("a:8000/metrics")
    network.answers["http://a:8000/metrics"] = PAGE.format(queries=1000, hits=500)
    (first,) = watched.next().replicas
    assert (first.name, first.hit_rate, first.reading.cumulative_hit_rate, list(first.curve)) == (
        "a:8000",
        None,
        0.5,
        [],
    )
    network.at_s += 5
    network.answers["http://a:8000/metrics"] = PAGE.format(queries=2000, hits=1400)
    (second,) = watched.next().replicas
    assert (second.hit_rate, second.query_tokens_per_s) == (0.9, 200.0)
    assert [(one.from_s, one.to_s, one.hit_rate) for one in second.curve] == [(1000.0, 1005.0, 0.9)]
    document = as_document(watched.next())
    assert (document["version"], document["at_s"], len(document["engines"])) == (1, 1005.0, 1)
    json.dumps(document, allow_nan=False)


def exported(at_s: float, target: str = "chat", evicted: float | None = None) -> Reading:
    return Reading(
        target,
        "0",
        at_s,
        up=True,
        interval=Interval(at_s - 5, at_s, 100.0, 40.0, 0.4),
        windows=(WindowRate(30.0, 600.0, 240.0, 0.4),),
        evicted_blocks_total=evicted,
        state=CurveState("degraded", "pool_pressure", 900.0),
    )


def api(*readings: Reading) -> str:
    return json.dumps({"at_s": 0.0, "engines": [as_json(reading) for reading in readings]})


def test_an_exporter_shows_its_engines_with_the_curve_it_has(network: Network) -> None:
    watched = network.watched("http://exporter:9477/")
    points = [
        {"from_s": 990.0, "to_s": 995.0, "queries": 10.0, "hits": 9.0, "hit_rate": 0.9, "state": "steady"},
        {"from_s": 995.0, "to_s": 1000.0, "queries": 100.0, "hits": 40.0, "hit_rate": 0.4, "state": "degraded"},
    ]
    network.answers = {
        "http://exporter:9477/metrics": EXPORTER_PAGE,
        "http://exporter:9477/api/v1/engines": api(exported(1000.0, evicted=50.0)),
        "http://exporter:9477/api/v1/engines/chat%2F0/curve": json.dumps({"points": points}),
    }
    (first,) = watched.next().replicas
    assert first.reading == exported(1000.0, evicted=50.0)
    assert [one.hit_rate for one in first.curve] == [0.9, 0.4]
    assert first.evictions_per_s is None
    network.answers["http://exporter:9477/api/v1/engines"] = api(exported(1005.0, evicted=75.0))
    (second,) = watched.next().replicas
    assert [one.to_s for one in second.curve] == [995.0, 1000.0, 1005.0]
    assert second.evictions_per_s == 5.0
    (same,) = watched.next().replicas
    assert (same.evictions_per_s, len(same.curve)) == (5.0, 3)
    assert network.asked.count("http://exporter:9477/api/v1/engines/chat%2F0/curve") == 1


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (None, "connection refused"),
        (503, "HTTP 503"),
        ("<html>", "the answer is not JSON"),
        ('{"engines": [{"new": 1}]}', "the exporter is of another version than this command"),
        ("[]", "the exporter is of another version than this command"),
    ],
)
def test_an_exporter_that_fails_is_one_replica_that_is_down(
    network: Network, answer: str | int | None, failure: str
) -> None:
    watched = network.watched("exporter:9477")
    network.answers = {
        "http://exporter:9477/metrics": EXPORTER_PAGE,
        "http://exporter:9477/api/v1/engines": answer,
    }
    (replica,) = watched.next().replicas
    assert (replica.name, replica.reading.up, replica.reading.failure) == ("exporter:9477", False, failure)


def test_two_engines_of_a_target_are_told_apart_and_a_gone_one_is_forgotten(network: Network) -> None:
    watched = network.watched("exporter:9477")
    network.answers["http://exporter:9477/metrics"] = EXPORTER_PAGE
    second = as_json(exported(1000.0)) | {"engine": "1"}
    both = {"engines": [as_json(exported(1000.0)), second]}
    network.answers["http://exporter:9477/api/v1/engines"] = json.dumps(both)
    assert [one.name for one in watched.next().replicas] == ["chat 0", "chat 1"]
    network.answers["http://exporter:9477/api/v1/engines"] = api(exported(1005.0))
    assert [one.name for one in watched.next().replicas] == ["chat"]


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:x", "http://a:8000/?q=1", "http://a:0", ""])
def test_what_is_no_address_is_refused_in_one_sentence(
    url: str, network: Network, one_line: Callable[[str], bool]
) -> None:
    with pytest.raises(UsageError) as refused:
        network.watched(url)
    assert one_line(str(refused.value))
    assert f"'{url}'" in str(refused.value)


def test_an_exporter_whose_answer_is_nested_without_end_is_down(network: Network) -> None:
    network.answers["http://a:9477/metrics"] = EXPORTER_PAGE
    network.answers["http://a:9477/api/v1/engines"] = "[" * 100_000
    (replica,) = network.watched("a:9477").next().replicas
    assert (replica.reading.up, replica.reading.failure) == (False, "the answer is not JSON")
