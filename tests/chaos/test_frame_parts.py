"""The parts of the frame one by one: settings, tolerances, the curve, followed requests, sources, loads."""

import json
import re
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve.reading import CurveState, Interval, Reading, WindowRate
from hitcurve_chaos.calls import HttpTransport, NoAnswer
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.curve import Curve, point_of
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Between, Expectation, OneOf
from hitcurve_chaos.interrupts import ended_like_interrupted, held_back
from hitcurve_chaos.journal import JournalFile, read_journal
from hitcurve_chaos.load_words import load_words
from hitcurve_chaos.observe import ExporterSource, ScrapeSource
from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, resolve, seconds
from hitcurve_chaos.polled_source import PolledSource, open_source
from hitcurve_chaos.process_loads import ProcessLoads
from hitcurve_chaos.request_tail import RequestTail, cached_share, ttft_p50_s


@pytest.mark.parametrize(("text", "value"), [("15", 15), ("15s", 15), ("1.5m", 90), ("500ms", 0.5), ("1h", 3600)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1s", "1 d", "s", "1s2", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        seconds(text)


def test_parameters_are_resolved_from_text_and_values() -> None:
    declared = [Parameter("flag", "flag", True, ""), Parameter("n", "count", 3, ""), *COMMON_PARAMETERS]
    settings = resolve(declared, {"baseline": "1m", "recover-within": 5.0, "flag": "no", "n": "7", "fall": 0.2})
    assert (settings["baseline"], settings["recover_within"], settings["hold"]) == (60.0, 5.0, 20.0)
    assert (settings["flag"], settings["n"], settings["fall"]) == (False, 7, 0.2)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"n": "1.5"}, "the scenario parameter 'n' cannot be '1.5'; give a whole number"),
        ({"n": -1}, "cannot be -1"),
        ({"n": True}, "cannot be True"),
        ({"flag": "maybe"}, "give true or false"),
        ({"d": "soon"}, "give a duration such as 15s"),
        ({"d": "9999999999999999h"}, "cannot be '9999999999999999h'; give at most 168h"),
        ({"d": "9" * 400}, "give at most 168h"),
        ({"baseline": "0s"}, "the scenario parameter 'baseline' cannot be '0s'; give at least 1s"),
        ({"recovered_share": 1.5}, "give at most 1"),
        ({"n": "1e300"}, "give at most 1,000,000"),
        ({"n": "1e999"}, "give a whole number"),
        ({"unknown": 1}, "there is no scenario parameter 'unknown'; the parameters are d, flag, n"),
    ],
)
def test_unfit_parameters_are_told(given: dict[str, Any], says: str) -> None:
    declared = [
        Parameter("flag", "flag", True, ""),
        Parameter("n", "count", 3, ""),
        Parameter("d", "duration", 1.0, ""),
        *(COMMON_PARAMETERS if "unknown" not in given else ()),
    ]
    with pytest.raises(UsageError) as told:
        resolve(declared, given)
    assert says in str(told.value)


def test_an_expectation_is_met_missed_or_cannot_be_judged() -> None:
    def met(tolerance: Any, value: Any) -> bool | None:
        return Expectation("x", "x", tolerance).judge(value).met

    assert [met(AtLeast(2), value) for value in (1.9, 2, "never", None)] == [False, True, False, None]
    assert [met(AtMost(2), value) for value in (2, 2.1, "never", None)] == [True, False, False, None]
    assert [met(Between(1, 2), value) for value in (0.9, 1, 2, 2.1, "never")] == [False, True, True, False, False]
    assert [met(OneOf(("a", "b")), value) for value in ("a", "c", None)] == [True, False, None]
    assert Expectation("x", "the rate", AtLeast(2)).judge(None).sentence == (
        "the rate: no value, expected at least 2 (tolerance at_least)"
    )


def reading(engine: str, at_s: float, queries: float, hits: float, state: Any, **more: Any) -> Reading:
    rate = hits / queries if queries else None
    return Reading(
        "t",
        engine,
        at_s,
        True,
        interval=Interval(at_s - 1, at_s, queries, hits, rate),
        windows=(WindowRate(30, 9 * queries, 0, 0.0 if queries else None), WindowRate(5, queries, hits, rate)),
        state=CurveState(state, None, at_s),
        **more,
    )


def test_a_point_of_several_engines_is_a_ratio_of_sums_and_the_worst_state() -> None:
    point = point_of(
        [
            reading("0", 10, 900, 810, "steady", preemptions_total=2.0),
            reading("1", 10, 100, 0, "collapsed"),
            reading("2", 10, 0, 0, "no_traffic"),
        ]
    )
    assert point.interval_rate == point.rate == 0.81
    assert (point.state, point.preemptions, point.evicted_blocks) == ("collapsed", 2.0, None)
    assert point_of([reading("2", 10, 0, 0, "no_traffic")]).rate is None


def test_the_curve_tells_rates_of_spans_its_lowest_interval_and_how_long_it_is_steady() -> None:
    curve = Curve()
    for at_s, queries, hits, state in [
        (1, 100, 80, "warming"),
        (2, 100, 90, "steady"),
        (3, 300, 30, "steady"),
        (4, 1, 0, "steady"),
    ]:
        curve.add(point_of([reading("0", at_s, queries, hits, state)]))
    assert curve.rate(1, 3) == 120 / 400
    assert curve.rate(4, 9) is None
    lowest = curve.lowest(0, 9, usual_queries=curve.usual_queries(0, 9))
    assert lowest is not None
    assert lowest.at_s == 3
    assert curve.steady_for_s() == 2
    assert [(change.at_s, change.state) for change in curve.transitions(1.5, 9)] == [(1, "warming"), (2, "steady")]


def test_what_is_no_request_is_left_out(tmp_path: Path) -> None:
    tail = RequestTail(tmp_path)
    cut_off = line(2)[:30]
    (tmp_path / "requests.jsonl").write_text(f"{line(1)}{cut_off}\n\n[]\nnull\n{{}}\n{line(3)}")
    tail.follow()
    assert [record.at_s for record in tail.records] == [1, 3]


def line(at_s: float, **values: Any) -> str:
    known = {"load": "background", "outcome": "ok", "ttft_s": 0.1, "prompt_tokens": 100, "cached_tokens": 50}
    return json.dumps({"at_s": at_s, **known, **values}) + "\n"


def test_requests_are_followed_line_by_line_and_a_torn_line_waits(tmp_path: Path) -> None:
    tail = RequestTail(tmp_path)
    tail.follow()
    assert tail.records == []
    path = tmp_path / "requests.jsonl"
    whole, torn = line(1), line(2, ttft_s=0.3, cached_tokens=None)
    path.write_text(whole + torn[:10])
    tail.follow()
    assert [record.at_s for record in tail.records] == [1]
    path.write_text(whole + torn + line(3, load="pressure-1") + line(4, outcome="failed", reason="HTTP 500"))
    tail.follow()
    tail.follow()
    assert [record.at_s for record in tail.records] == [1, 2, 3, 4]
    background = tail.between(0, 9)
    assert [record.at_s for record in background] == [1, 2, 4]
    assert ttft_p50_s(background) == pytest.approx(0.2)
    assert cached_share(background) == 0.5
    assert (tail.completed_since(2), tail.completed_since(3)) == (True, False)


def test_the_journal_survives_a_torn_last_line_and_not_a_torn_middle(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path, SystemClock())
    journal.write("s", "scenario_started", target="t")
    path = tmp_path / "journal.jsonl"
    with path.open("a") as file:
        file.write('{"at_s": 1, "scen')
    assert [entry.event for entry in read_journal(tmp_path)] == ["scenario_started"]
    with path.open("a") as file:
        file.write("\n{}\n{}\n")
    with pytest.raises(UsageError, match=r"journal\.jsonl:2 is not a journal entry"):
        list(read_journal(tmp_path))


def test_the_exporter_is_read_over_http_each_reading_once(scripted: ModuleType, world: Any) -> None:
    with scripted.serve(world) as url:
        source = ExporterSource(scripted.target_at(url), HttpTransport())
        assert (list(source.look()), "has no target" in str(source.trouble)) == ([], True)
        world.sleep(1)
        assert [reading.at_s for reading in source.look()] == [world.now_s]
        assert (list(source.look()), source.trouble) == ([], None)
        assert source.mark("reset", 5.0)
        assert world.marks == [{"target": "t", "kind": "reset", "at_s": 5.0}]
    assert list(source.look()) == []
    assert str(source.trouble).startswith("the exporter does not answer")
    assert not source.mark("reset", 5.0)


def test_what_is_not_an_exporter_is_told(scripted: ModuleType, world: Any) -> None:
    world.answer = lambda method, path, body: (200, "<html>")
    source = ExporterSource(scripted.target_at("http://127.0.0.1:1"), world)
    assert list(source.look()) == []
    assert str(source.trouble).endswith("is it a hitcurve exporter?")


def test_without_an_exporter_the_engines_own_page_is_scraped(scripted: ModuleType, world: Any) -> None:
    page = (
        'vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100\n'
        'vllm:prefix_cache_hits_total{engine="0",model_name="m"} 60\n'
    )
    world.answer = lambda method, path, body: (200, page) if path == "/metrics" else (404, "")
    with scripted.serve(world) as url:
        source = ScrapeSource(scripted.target_at(url))
        (found,) = source.look()
        assert (found.target, found.up, found.cumulative_hit_rate, source.trouble) == ("t", True, 0.6, None)
        assert source.mark("reset", found.at_s)
        (found,) = source.look()
        assert [cut.kind for cut in found.cuts] == ["reset"]
    (found,) = source.look()
    assert not found.up
    assert str(source.trouble).endswith("/metrics brings nothing: connection refused")


def test_a_polled_source_hands_out_every_scrape_in_order(scripted: ModuleType, world: Any) -> None:
    scrapes = [[reading("0", at_s, 10, 5, "steady")] for at_s in (1, 2, 3)]

    class StandInSource:
        trouble = "some"

        def __init__(self) -> None:
            self.left = list(scrapes)

        pending = False

        def look(self) -> Any:
            return self.left.pop(0) if self.left else ()

    found: list[Any] = []
    with PolledSource(StandInSource(), every_s=0.001) as source:
        while len(found) < 3:
            found += [scrape] if (scrape := source.look()) else []
        assert source.trouble == "some"
    assert found == scrapes
    assert list(source.look()) == []


def test_open_source_takes_the_exporter_where_there_is_one(scripted: ModuleType, world: Any) -> None:
    world.sleep(1)
    with scripted.serve(world) as url, open_source(scripted.target_at(url), HttpTransport()) as source:
        found: list[Any] = []
        while not found:
            found = list(source.look())
    assert found[0].target == "t"


def test_silence_is_no_answer_and_an_error_status_is_one(scripted: ModuleType, world: Any) -> None:
    with scripted.serve(world) as url:
        answer = HttpTransport().send("POST", f"{url}/nothing", json_body={"a": 1})
        assert (answer.status, answer.json()) == (404, {"detail": "Not Found"})
        assert world.calls[-1] == ("POST", "/nothing", {"a": 1})
    with pytest.raises(NoAnswer, match=r"GET http://127\.0\.0\.1:\d+/x: "):
        HttpTransport().send("GET", f"{url}/x")


def test_settings_of_the_target_file_become_options_of_hitcurve_load() -> None:
    settings = {"model": ("a", "b"), "rate": 2.5, "profile": "unique", "ignore_eos": False, "users": None}
    assert load_words("http://h", settings) == [
        *("unique", "--model", "a", "--model", "b", "--rate", "2.5", "--no-ignore-eos", "--host", "http://h")
    ]


def test_a_background_load_that_does_not_start_says_why_and_leaves_no_process(
    scripted: ModuleType, tmp_path: Path
) -> None:
    loads = ProcessLoads(scripted.target_at("http://127.0.0.1:1"), tmp_path, 1)
    with pytest.raises(EnvironmentFailed, match="there is no load profile 'sharde'"):
        loads.start("background", {"profile": "sharde"})


def test_a_held_back_ctrl_c_comes_when_the_block_has_ended() -> None:
    done = []

    def undo() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("finished")

    with pytest.raises(KeyboardInterrupt):
        undo()
    assert done == ["finished"]


def test_sigterm_interrupts_like_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ended_like_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
