"""The EXP cases through the real command line: what ``hitcurve replay --json`` prints against expected.json.

A generic reading of expected.json serves the cases of the usual form; every key of it must be understood. The
cases that say something of their own have a test each.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

Document = dict[str, Any]
Replay = Callable[..., Document]

USUAL = [
    "01",
    "02",
    "03",
    "04",
    "06",
    "07",
    "08",
    "11",
    "13",
    "14",
    "16",
    "17",
    "20",
    "22",
    "26",
    "28",
    "32",
    "33",
]


@pytest.fixture
def replay(shared: Path, capsys: pytest.CaptureFixture[str]) -> Replay:
    """Run the command on a manifest below the cases; the JSON it printed."""

    def run(manifest: str | Path, *windows_s: float) -> Document:
        options = [word for length in windows_s for word in ("--window", str(length))]
        with pytest.raises(SystemExit) as left:
            main(["replay", str(shared / "cases" / manifest), *options, "--json"])
        printed = capsys.readouterr()
        assert left.value.code == 0, printed.err
        document: Document = json.loads(printed.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        return document

    return run


@pytest.fixture
def expected(shared: Path) -> Callable[[str], Document]:
    return lambda case: json.loads((shared / "cases" / case / "expected.json").read_text())


def only_target(document: Document) -> Document:
    (target,) = document["targets"].values()
    found: Document = target
    return found


def agrees(interval: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an interval is the wanted one; a key of ``wanted`` that means nothing is an error."""
    scale = 16 if "queries_blocks" in wanted else 1
    checks = {
        "queries": lambda value: interval["queries"] == value,
        "hits": lambda value: interval["hits"] == value,
        "queries_tokens": lambda value: interval["queries"] == value,
        "hits_tokens": lambda value: interval["hits"] == value,
        "queries_blocks": lambda value: interval["queries"] == value * scale,
        "hits_blocks": lambda value: interval["hits"] == value * scale,
        "hit_rate": lambda value: (
            interval["hit_rate"] is None
            if value is None
            else interval["hit_rate"] == pytest.approx(value, abs=1e-6)
        ),
        "resets": lambda value: interval["restarts"] == value,
        "any_of": lambda options: any(agrees(interval, option) for option in options),
        "anomaly": lambda value: bool(interval["flags"]) == value,
        "clamped": lambda value: (interval["hit_rate"] == 1.0) == value,
        "from": lambda _: True,
        "to": lambda _: True,
        "model_name": lambda _: True,
    }
    return all(checks[key](value) for key, value in wanted.items())


def at_of(case: Document) -> dict[str, float]:
    """Page name without its ending to the time of its scrape."""
    return {Path(scrape["file"]).stem.split("_")[0]: scrape["at_s"] for scrape in case["scrapes"]}


def interval_of(intervals: Iterable[Document], wanted: Document, at_s: Mapping[str, float]) -> Document:
    (found,) = [
        interval
        for interval in intervals
        if (interval["from_s"], interval["to_s"]) == (at_s[wanted["from"]], at_s[wanted["to"]])
    ]
    return found


@pytest.mark.parametrize("number", USUAL)
def test_a_case_of_the_usual_form(number: str, replay: Replay, expected: Callable[[str], Document]) -> None:
    case = expected(f"EXP-{number}")
    at_s, wanted = at_of(case), dict(case["expect"])
    rolling = wanted.pop("rolling", [])
    document = replay(f"EXP-{number}", *sorted({one["window_s"] for one in rolling}))
    target = only_target(document)

    intervals = wanted.pop("intervals", [])
    for one in intervals:
        assert agrees(interval_of(target["intervals"], one, at_s), one), (one, target["intervals"])
    if intervals:
        assert len(target["intervals"]) == len(intervals)
        assert document["fleet"]["intervals"] == target["intervals"]
    for one in rolling:
        (window,) = [
            window
            for window in document["windows"]
            if (window["at_s"], window["window_s"]) == (at_s[one["at"]], one["window_s"])
        ]
        numbers = {key: value for key, value in one.items() if key not in ("at", "window_s")}
        assert agrees({"restarts": 0, "flags": [], **window}, numbers), (one, window)
    check_engines(wanted, target, at_s)
    check_facts(wanted, target, at_s)
    assert not wanted, "expectations that nothing here understands"


def check_engines(wanted: Document, target: Document, at_s: Mapping[str, float]) -> None:
    for key, label in [("per_engine", "engine"), ("per_dp_rank", "dp_rank"), ("per_backend", "pd_backend")]:
        for name, one in wanted.pop(key, {}).items():
            engine = target["engines"][name]
            assert engine["labels"][label] == name
            assert agrees(interval_of(engine["intervals"], one, at_s), one), (name, engine)
    for one in wanted.pop("per_model", []):
        (engine,) = [
            engine for engine in target["engines"].values() if engine["labels"]["model_name"] == one["model_name"]
        ]
        assert agrees(engine["intervals"][0], one), (one, engine)
    if "target_total" in wanted:
        one = wanted.pop("target_total")
        assert agrees(interval_of(target["intervals"], one, at_s), one), (one, target["intervals"])


def check_facts(wanted: Document, target: Document, at_s: Mapping[str, float]) -> None:
    if "lifetime_at_t2" in wanted:
        assert target["cumulative_hit_rate"] == pytest.approx(wanted.pop("lifetime_at_t2"), abs=1e-6)
    if "counter_resets_seen" in wanted:
        restarts = [cut for cut in target["cuts"] if cut["kind"] == "restart"]
        assert target["restarts"] == len(restarts) == wanted.pop("counter_resets_seen")
    if "created_unix_s" in wanted:
        assert target["facts"]["start_time_s"] == wanted.pop("created_unix_s")
    if "min_reusable_prefix_tokens" in wanted:
        assert target["facts"]["min_reusable_prefix_tokens"] == wanted.pop("min_reusable_prefix_tokens")
    if "scrape_failures" in wanted:
        wanted.pop("at_t1")
        assert [failed["at_s"] for failed in target["failed_scrapes"]] == [at_s["t1"]]
        assert len(target["failed_scrapes"]) == wanted.pop("scrape_failures")
    # The engine's own gauge is not passed on under any name.
    wanted.pop("engine_gauge", None)


def test_03_says_which_spelling_was_read(replay: Replay) -> None:
    facts = only_target(replay("EXP-03"))["facts"]
    assert (facts["counter"], facts["source_unit"]) == ("vllm:prefix_cache_queries_total", "tokens")


def test_04_shows_the_unit(replay: Replay) -> None:
    (interval,) = only_target(replay("EXP-04"))["intervals"]
    assert interval["source_unit"] == "blocks"


def test_06_tells_the_change_of_names_once(replay: Replay) -> None:
    target = only_target(replay("EXP-06"))
    assert [interval["flags"] for interval in target["intervals"]] == [["spelling_changed"], []]


def test_15_a_target_that_flips_between_processes_has_no_rate(
    replay: Replay, expected: Callable[[str], Document]
) -> None:
    case = expected("EXP-15")
    intervals = only_target(replay("EXP-15"))["intervals"]
    assert len(intervals) == 3
    for interval in intervals:
        assert interval["flags"] == ["unstable_target"]
        assert (interval["queries"], interval["hits"], interval["hit_rate"]) == (None, None, None)
    assert case["expect"]["unstable_target"]


def test_16_flags_the_repeated_block(replay: Replay) -> None:
    (interval,) = only_target(replay("EXP-16"))["intervals"]
    assert interval["flags"] == ["duplicate_series"]


def test_18_retracted_requests_never_make_more_than_all_hit(replay: Replay) -> None:
    (interval,) = only_target(replay("EXP-18"))["intervals"]
    assert agrees(interval, {"queries": 1000, "hits": 600, "hit_rate": 0.6})
    assert interval["served"] == {"prompt_tokens": 1000, "cached_tokens": 2000, "hit_rate": 1.0}
    assert interval["tiers"] is None


def test_18_without_realtime_counters_the_rate_is_clamped_and_flagged(
    replay: Replay, shared: Path, tmp_path: Path
) -> None:
    folder = shared / "cases" / "EXP-18"
    for name in ("t0.prom", "t1.prom"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (tmp_path / name).write_text("".join(line for line in lines if "realtime" not in line))
    (tmp_path / "scrapes.json").write_text((folder / "scrapes.json").read_text())
    (interval,) = only_target(replay(tmp_path))["intervals"]
    assert agrees(interval, {"queries": 1000, "hits": 2000, "hit_rate": 1.0, "anomaly": True})


def test_21_odd_but_legal_text(replay: Replay) -> None:
    target = only_target(replay("EXP-21"))
    (interval,) = target["intervals"]
    assert agrees(interval, {"queries": 400, "hits": 200, "hit_rate": 0.5})
    assert target["facts"]["kv_usage"] is None


def test_23_only_the_newest_adapter_sample_counts(replay: Replay, expected: Callable[[str], Document]) -> None:
    wanted = expected("EXP-23")["expect"]
    target = only_target(replay("EXP-23"))
    facts = target["facts"]
    assert facts["running_adapters"] == wanted["running_adapters"]
    assert facts["waiting_adapters"] == wanted["waiting_adapters"]
    assert facts["max_adapters"] == wanted["max_lora"]
    assert target["engines"]["0"]["labels"] == {"engine": "0", "model_name": "acme/tiny-7b"}


@pytest.mark.parametrize("variant", ["t1_new", "t1_old"])
def test_24_local_and_external_cache(variant: str, replay: Replay, expected: Callable[[str], Document]) -> None:
    wanted = expected("EXP-24")["expect"][variant]
    (interval,) = only_target(replay(f"EXP-24/scrapes_{variant}.json"))["intervals"]
    assert interval["hit_rate"] == pytest.approx(wanted["local"], abs=1e-6)
    assert interval["tiers"]["device"] == pytest.approx(wanted["local"], abs=1e-6)
    assert sum(interval["tiers"].values()) == pytest.approx(wanted["combined"], abs=1e-6)


@pytest.mark.parametrize("page", ["none.prom", "hybrid.prom"])
def test_27_capacity(
    page: str, replay: Replay, shared: Path, tmp_path: Path, expected: Callable[[str], Document]
) -> None:
    folder = shared / "cases" / "EXP-27"
    entries = json.loads((folder / "scrapes.json").read_text())
    manifest = tmp_path / "scrapes.json"
    (tmp_path / page).write_text((folder / page).read_text())
    manifest.write_text(json.dumps([entry for entry in entries if entry["file"] == page]))
    facts = only_target(replay(manifest))["facts"]
    assert facts["capacity_tokens"] == expected("EXP-27")["expect"][page]["capacity_tokens"]


def test_28_a_failed_scrape_has_no_rate(replay: Replay) -> None:
    document = replay("EXP-28", 30)
    assert only_target(document)["failed_scrapes"] == [{"at_s": 15, "reason": "HTTP 500"}]
    (window,) = [window for window in document["windows"] if window["at_s"] == 15]
    assert (window["queries"], window["hits"], window["hit_rate"]) == (None, None, None)


def test_31_rewritten_names(replay: Replay, expected: Callable[[str], Document]) -> None:
    wanted = expected("EXP-31")["expect"]
    intervals = only_target(replay("EXP-31"))["intervals"]
    assert len(intervals) == 2
    for interval, name in zip(intervals, ("ray", "otel"), strict=True):
        assert agrees(interval, wanted[name])


def test_34_a_hung_engine_is_not_an_idle_one(replay: Replay, expected: Callable[[str], Document]) -> None:
    case = expected("EXP-34")
    at_s, wanted = at_of(case), case["expect"]
    target = only_target(replay("EXP-34"))
    for one in wanted["intervals"]:
        assert agrees(interval_of(target["intervals"], one, at_s), one)
    assert [interval["flags"] for interval in target["intervals"]] == [[], ["stalled"], ["stalled"]]
    assert target["facts"]["requests_waiting"] == wanted["at_t3"]["requests_waiting"]
    assert target["state"]["state"] == "stalled"
    assert target["state"]["evidence"]["silence_s"] == wanted["at_t3"]["counters_frozen_s"]
    assert target["state"]["evidence"]["waiting"] == wanted["at_t3"]["requests_waiting"]
