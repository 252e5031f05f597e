"""Recordings that end badly although they began well: the last state never reads steady.

Each begins with the same hour of an engine that truly is steady, so that a replay that never says so fails too.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

URL = "http://e:1/metrics"
STEP_S, T0 = 15.0, 1_800_000_000.0
WARM = 80
Pages = list[str | None]


def engine(queries: float, hits: float, rank: str = "0", start_s: float = T0 - 1_000, **gauges: float) -> str:
    labels = f'{{engine="{rank}",model_name="m"}}'
    lines = {
        "prefix_cache_queries_total": queries,
        "prefix_cache_hits_total": hits,
        "prefix_cache_queries_created": start_s,
        "prefix_cache_hits_created": start_s,
        **gauges,
    }
    return "".join(f"vllm:{name}{labels} {value}\n" for name, value in lines.items())


def steady(scrape: int, rank: str = "0", rate: float = 0.75) -> str:
    """60 requests of 1,000 tokens a scrape, three in four found, a little more or less."""
    hits = sum(60_000 * rate + (number % 5 - 2) * 600 for number in range(scrape))
    return engine(60_000 * scrape, max(hits, 0), rank)


@pytest.fixture
def replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Pages], dict[str, Any]]:
    """What ``hitcurve replay --json`` says of one target."""

    def replay(pages: Pages) -> dict[str, Any]:
        manifest = []
        for number, text in enumerate(pages):
            row = {"at_s": T0 + number * STEP_S, "target": URL, "status": 500 if text is None else 200}
            if text is not None:
                (tmp_path / f"{number}.prom").write_text(text)
                row |= {"file": f"{number}.prom", "content_type": "text/plain; version=0.0.4"}
            manifest.append(row)
        (tmp_path / "scrapes.json").write_text(json.dumps(manifest))
        with pytest.raises(SystemExit):
            main(["replay", str(tmp_path), "--json"])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        target: dict[str, Any] = document["targets"][URL]
        return target

    return replay


def warm() -> Pages:
    return [steady(scrape) for scrape in range(WARM)]


def test_an_hour_of_nothing_wrong_reads_steady(replayed: Any) -> None:
    target = replayed(warm())
    assert target["state"]["state"] == "steady"
    assert target["engines"]["0"]["state"]["state"] == "steady"
    assert target["episodes"] == []


def test_no_data(replayed: Any) -> None:
    assert replayed([*warm(), *[steady(WARM)] * 30])["state"]["state"] == "no_traffic"


@pytest.mark.parametrize("changed", [None, "vllm:some_other_name_total 5\n"])
def test_a_recording_that_ends_with_a_page_nobody_could_read(replayed: Any, changed: str | None) -> None:
    target = replayed([*warm(), changed])
    assert target["state"] is None
    assert target["engines"]["0"]["state"] is None
    assert len(target["failed_scrapes"]) == 1


@pytest.mark.parametrize("hits", ["NaN", "+Inf", "-1"])
def test_counters_that_are_no_counts(hits: str, replayed: Any) -> None:
    odd = re.sub(r"(hits_total\{.*\}) .*", rf"\1 {hits}", steady(WARM))
    target = replayed([*warm(), odd])
    assert (target["state"], target["engines"]["0"]["state"]) == (None, None)
    assert replayed([*warm(), odd, steady(WARM + 1)])["state"]["state"] == "steady"


def test_one_engine_of_two_without_its_hits(replayed: Any) -> None:
    both = [steady(scrape, "0") + steady(scrape, "1") for scrape in range(WARM + 1)]
    half = both[-1].replace('prefix_cache_hits_total{engine="1"', 'something_else{engine="1"')
    target = replayed([*both[:-1], half])
    assert (target["state"], target["engines"]["1"]["state"]) == (None, None)
    assert target["engines"]["0"]["state"]["state"] == "steady"
    assert replayed(both)["state"]["state"] == "steady"


def test_what_is_known_to_be_ill_is_told_beside_what_is_unknown(replayed: Any) -> None:
    pages = [steady(scrape, "0") + steady(scrape, "1") for scrape in range(WARM)]
    hits = float(pages[-1].split('hits_total{engine="0",model_name="m"} ')[1].split()[0])
    for scrape in range(WARM, WARM + 6):
        nothing_found = engine(60_000 * scrape, hits, "0")
        pages.append(nothing_found + steady(scrape, "1").replace("prefix_cache_hits_total", "something_else"))
    target = replayed(list(pages))
    assert (target["state"]["state"], target["engines"]["1"]["state"]) == ("collapsed", None)


def test_an_address_that_leads_to_several_processes_after_an_hour(replayed: Any) -> None:
    other = engine(60_000, 0, start_s=T0 - 5_000)
    target = replayed([*warm(), other, steady(WARM + 1), other])
    assert (target["state"], target["engines"]["0"]["state"]) == (None, None)
    assert target["intervals"][-1]["flags"] == ["unstable_target"]


def test_metrics_that_were_renamed(replayed: Any) -> None:
    assert replayed([*warm(), steady(WARM).replace("prefix_cache", "prefix_store")])["state"] is None


def test_names_that_nobody_knows(replayed: Any) -> None:
    assert replayed([page.replace("prefix_cache", "prefix_store") for page in warm() if page])["state"] is None


def test_a_failed_scrape_in_between_changes_nothing(replayed: Any) -> None:
    target = replayed([*warm(), None, steady(WARM + 1)])
    assert target["state"]["state"] == "steady"
    assert [state["state"] for state in target["states"]].count("steady") == 1


def test_one_engine_of_two_at_nothing(replayed: Any) -> None:
    target = replayed([steady(scrape, "0") + engine(60_000 * scrape, 0, "1") for scrape in range(WARM)])
    assert target["state"]["state"] == "low"
    assert target["engines"]["0"]["state"]["state"] == "steady"


def test_one_engine_of_two_that_is_gone(replayed: Any) -> None:
    both = [steady(scrape, "0") + steady(scrape, "1") for scrape in range(WARM)]
    target = replayed([*both, steady(WARM, "0")])
    assert target["engines"]["1"]["state"] is None
    assert target["engines"]["0"]["state"]["state"] == "steady"


def test_a_restart_between_two_polls(replayed: Any) -> None:
    target = replayed([*warm(), engine(10_000, 500, start_s=T0 + WARM * STEP_S - 5)])
    assert (target["state"]["state"], target["state"]["cause"]) == ("cold", "restart")


def test_a_restart_whose_counters_have_already_overtaken(replayed: Any) -> None:
    again = engine(60_000 * WARM * 2, 45_000 * WARM * 2, start_s=T0 + WARM * STEP_S - 14)
    target = replayed([*warm(), again])
    assert (target["state"]["state"], target["state"]["cause"]) == ("cold", "restart")
    assert target["intervals"][-1]["flags"] == ["start_time_changed"]


def test_counters_that_stand_still_while_requests_wait(replayed: Any) -> None:
    waiting = steady(WARM) + 'vllm:num_requests_waiting{engine="0",model_name="m"} 3\n'
    assert replayed([*warm(), waiting, waiting, waiting])["state"]["state"] == "stalled"
