"""The whole /metrics page, from readings whose values were worked out by hand."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from hitcurve.flags import ALL_FLAGS, HITS_EXCEED_QUERIES, UNKNOWN_BLOCK_SIZE
from hitcurve.reading import CurveState, Reading, RequestWindowRate, WindowRate
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.fleet import fleet_of
from hitcurve_exporter.page.document import OPENMETRICS, TEXT, page
from hitcurve_exporter.page.exporter_samples import fleet_lines, self_lines
from hitcurve_exporter.page.negotiation import format_for
from hitcurve_exporter.scraping.fetched import FAILURE_REASONS, Fetched
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

FULL = Reading(
    target="left",
    engine="0",
    at_s=1_700_000_100.5,
    up=True,
    labels={"model_name": "tiny"},
    windows=(WindowRate(30.0, 1000.0, 750.0, 0.75), WindowRate(60.0, 0.0, 0.0, None)),
    request_window=RequestWindowRate(1000, 250.0, 0.5, 200.0),
    cumulative_hit_rate=0.875,
    query_tokens_total=4000.0,
    hit_tokens_total=3000.0,
    requests_total=250.0,
    restarts_total=1,
    resets_total=2,
    kv_usage=0.25,
    preemptions_total=3.0,
    evicted_blocks_total=None,
    running=2.0,
    waiting=0.0,
    block_size=16,
    capacity_tokens=32000,
    min_reusable_prefix_tokens=16,
    state=CurveState("collapsed", "reset", 1_700_000_090.25),
    flags=(HITS_EXCEED_QUERIES,),
)
GOOD = Fetched(1_700_000_100.5, 50.0, 0.125, 200, "text/plain", b"x" * 500)
REFUSED = Fetched(1_700_000_101.0, 51.0, 0.002, failure="connection_refused", detail="refused")
ENGINE = 'target="left",engine="0",model_name="tiny",zone="fra1"'
TARGET = 'target="left",zone="fra1"'
EXPECTED_OF_LEFT = {
    "hitcurve_hit_rate_ratio": [f'{{{ENGINE},window="30s"}} 0.75'],
    "hitcurve_window_covered_seconds": [f'{{{ENGINE},window="30s"}} 0.0', f'{{{ENGINE},window="1m"}} 0.0'],
    "hitcurve_request_window_hit_rate_ratio": [f"{{{ENGINE}}} 0.5"],
    "hitcurve_request_window_requests": [f"{{{ENGINE}}} 250.0"],
    "hitcurve_request_window_lag_seconds": [f"{{{ENGINE}}} 200.0"],
    "hitcurve_cumulative_hit_rate_ratio": [f"{{{ENGINE}}} 0.875"],
    "hitcurve_prefill_speedup_ratio": [f'{{{ENGINE},window="30s"}} 4.0'],
    "hitcurve_query_tokens_total": [f"{{{ENGINE}}} 4000.0"],
    "hitcurve_hit_tokens_total": [f"{{{ENGINE}}} 3000.0"],
    "hitcurve_requests_total": [f"{{{ENGINE}}} 250.0"],
    "hitcurve_running_requests": [f"{{{ENGINE}}} 2.0"],
    "hitcurve_waiting_requests": [f"{{{ENGINE}}} 0.0"],
    "hitcurve_curve_state": [
        f'{{{ENGINE},state="no_traffic"}} 0',
        f'{{{ENGINE},state="cold"}} 0',
        f'{{{ENGINE},state="warming"}} 0',
        f'{{{ENGINE},state="steady"}} 0',
        f'{{{ENGINE},state="low"}} 0',
        f'{{{ENGINE},state="degraded"}} 0',
        f'{{{ENGINE},state="collapsed"}} 1',
        f'{{{ENGINE},state="oscillating"}} 0',
        f'{{{ENGINE},state="stalled"}} 0',
    ],
    "hitcurve_curve_state_since_timestamp_seconds": [f"{{{ENGINE}}} 1700000090.25"],
    "hitcurve_curve_cause": [
        f'{{{ENGINE},cause="restart"}} 0',
        f'{{{ENGINE},cause="reset"}} 1',
        f'{{{ENGINE},cause="pool_pressure"}} 0',
        f'{{{ENGINE},cause="lora_churn"}} 0',
        f'{{{ENGINE},cause="traffic_shift"}} 0',
        f'{{{ENGINE},cause="isolation"}} 0',
        f'{{{ENGINE},cause="short_prefix"}} 0',
        f'{{{ENGINE},cause="unknown"}} 0',
    ],
    "hitcurve_engine_restarts_total": [f"{{{ENGINE}}} 1"],
    "hitcurve_cache_resets_total": [f"{{{ENGINE}}} 2"],
    "hitcurve_preemptions_total": [f"{{{ENGINE}}} 3.0"],
    "hitcurve_kv_usage_ratio": [f"{{{ENGINE}}} 0.25"],
    "hitcurve_capacity_tokens": [f"{{{ENGINE}}} 32000"],
    "hitcurve_block_size_tokens": [f"{{{ENGINE}}} 16"],
    "hitcurve_min_reusable_prefix_tokens": [f"{{{ENGINE}}} 16"],
    "hitcurve_target_hit_rate_ratio": [f'{{{TARGET},window="30s"}} 0.75'],
    "hitcurve_up": [f"{{{TARGET}}} 1"],
    "hitcurve_scrape_duration_seconds": [f"{{{TARGET}}} 0.125"],
    "hitcurve_scrape_body_bytes": [f"{{{TARGET}}} 500"],
    "hitcurve_scrape_errors_total": [f'{{{TARGET},reason="{reason}"}} 0' for reason in FAILURE_REASONS],
    "hitcurve_scrapes_skipped_total": [f"{{{TARGET}}} 0"],
    "hitcurve_last_success_timestamp_seconds": [f"{{{TARGET}}} 1700000100.5"],
    "hitcurve_flags_total": [
        f'{{{TARGET},flag="{flag}"}} {int(flag == HITS_EXCEED_QUERIES)}' for flag in ALL_FLAGS
    ],
    "hitcurve_engines_over_limit": [f"{{{TARGET}}} 0"],
}


def left_target() -> WatchedTarget:
    config = TargetConfig("http://left:1", "http://left:1/metrics", "left", (("zone", "fra1"),))
    return WatchedTarget(config, 256, InternalErrors())


def samples(text: str) -> dict[str, list[str]]:
    """Sample lines without the metric name, by metric name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name = line.split("{")[0].split(" ")[0]
            found.setdefault(name, []).append(line.removeprefix(name))
    return found


def whole_page(targets: Sequence[WatchedTarget], form: object = TEXT) -> str:
    fleet = fleet_of(reading for target in targets for reading in target.readings)
    own = self_lines(len(targets), 15.0, 0, True, 1_700_000_000.0)
    assert form in (TEXT, OPENMETRICS)
    return page([*(target.lines for target in targets), fleet_lines(fleet), own], form).decode()  # type: ignore[arg-type]


def test_every_sample_of_a_target_is_as_worked_out() -> None:
    target = left_target()
    target.take(GOOD, [FULL])
    assert samples(page([target.lines], TEXT).decode()) == EXPECTED_OF_LEFT


def test_a_metric_without_value_has_no_sample() -> None:
    bare = Reading(target="left", engine="0", at_s=1.0, up=True)
    target = left_target()
    target.take(GOOD, [bare])
    seen = samples(page([target.lines], TEXT).decode())
    about_engine = {name for name, lines in seen.items() if any("engine=" in line for line in lines)}
    assert about_engine == {
        "hitcurve_query_tokens_total",
        "hitcurve_hit_tokens_total",
        "hitcurve_engine_restarts_total",
        "hitcurve_cache_resets_total",
    }
    assert "model_name" not in "".join(seen["hitcurve_query_tokens_total"])


def test_token_volumes_of_an_unknown_block_size_are_not_shown() -> None:
    target = left_target()
    target.take(GOOD, [replace(FULL, flags=(UNKNOWN_BLOCK_SIZE,))])
    seen = samples(page([target.lines], TEXT).decode())
    assert "hitcurve_query_tokens_total" not in seen
    assert "hitcurve_hit_tokens_total" not in seen
    assert seen["hitcurve_hit_rate_ratio"] == EXPECTED_OF_LEFT["hitcurve_hit_rate_ratio"]


@pytest.mark.parametrize("impossible", [1.0, 1.5])
def test_no_speedup_is_shown_that_would_be_infinite_or_negative(impossible: float) -> None:
    target = left_target()
    target.take(GOOD, [replace(FULL, windows=(WindowRate(30.0, 10.0, 10.0, impossible),))])
    assert "hitcurve_prefill_speedup_ratio" not in samples(page([target.lines], TEXT).decode())


def test_counters_about_scrapes_add_up() -> None:
    target = left_target()
    target.take(REFUSED, [])
    before = samples(page([target.lines], TEXT).decode())
    assert before["hitcurve_up"] == [f"{{{TARGET}}} 0"]
    assert "hitcurve_last_success_timestamp_seconds" not in before
    assert "hitcurve_scrape_body_bytes" not in before
    target.take(GOOD, [FULL, replace(FULL, engine="1")])
    target.take(GOOD, [FULL])
    target.take(REFUSED, [FULL])
    after = samples(page([target.lines], TEXT).decode())
    assert f'{{{TARGET},reason="connection_refused"}} 2' in after["hitcurve_scrape_errors_total"]
    assert f'{{{TARGET},flag="{HITS_EXCEED_QUERIES}"}} 3' in after["hitcurve_flags_total"]
    assert after["hitcurve_last_success_timestamp_seconds"] == [f"{{{TARGET}}} 1700000100.5"]


def test_an_engine_that_is_gone_from_the_page_is_gone_from_ours() -> None:
    target = left_target()
    target.take(GOOD, [FULL, replace(FULL, engine="1")])
    assert len(samples(page([target.lines], TEXT).decode())["hitcurve_query_tokens_total"]) == 2
    target.take(GOOD, [FULL])
    assert samples(page([target.lines], TEXT).decode()) | {"hitcurve_flags_total": []} == EXPECTED_OF_LEFT | {
        "hitcurve_flags_total": []
    }


def test_engines_beyond_the_limit_are_counted_and_left_out() -> None:
    config = TargetConfig("http://left:1", "http://left:1/metrics", "left")
    target = WatchedTarget(config, 2, InternalErrors())
    target.take(GOOD, [replace(FULL, engine=str(rank)) for rank in range(5)])
    seen = samples(page([target.lines], TEXT).decode())
    assert len(seen["hitcurve_query_tokens_total"]) == 2
    assert seen["hitcurve_engines_over_limit"] == ['{target="left"} 3']


def test_an_engine_that_cannot_be_shown_spoils_no_other(caplog: pytest.LogCaptureFixture) -> None:
    errors = InternalErrors()
    target = WatchedTarget(TargetConfig("http://left:1", "http://left:1/metrics", "left"), 256, errors)
    broken = replace(FULL, engine="broken", labels=None)  # type: ignore[arg-type]
    target.take(GOOD, [broken, FULL])
    seen = samples(page([target.lines], TEXT).decode())
    assert seen["hitcurve_query_tokens_total"] == ['{target="left",engine="0",model_name="tiny"} 4000.0']
    assert errors.count == 1
    assert "engine broken of left has no samples" in caplog.text


def test_the_fleet_is_a_ratio_of_sums() -> None:
    small = replace(FULL, windows=(WindowRate(30.0, 100.0, 90.0, 0.9),))
    large = replace(FULL, engine="1", windows=(WindowRate(30.0, 900.0, 90.0, 0.1),), state=None)
    down = replace(FULL, engine="2", up=False)
    blocks = replace(FULL, engine="3", windows=(), flags=(UNKNOWN_BLOCK_SIZE,))
    fleet = fleet_of([small, large, down, blocks])
    assert (fleet.engines, fleet.engines_up) == (4, 3)
    assert fleet.windows == (WindowRate(30.0, 1000.0, 180.0, 0.18),)
    assert {state: count for state, count in fleet.states.items() if count} == {"collapsed": 2}
    lines = samples(page([fleet_lines(fleet)], TEXT).decode())
    assert lines["hitcurve_fleet_hit_rate_ratio"] == ['{window="30s"} 0.18']
    assert lines["hitcurve_fleet_engines"] == [" 4"]


def test_no_traffic_in_the_fleet_is_no_value() -> None:
    fleet = fleet_of([replace(FULL, windows=(WindowRate(30.0, 0.0, 0.0, None),))])
    assert fleet.windows == (WindowRate(30.0, 0.0, 0.0, None),)
    assert "hitcurve_fleet_hit_rate_ratio" not in samples(page([fleet_lines(fleet)], TEXT).decode())


def two_targets_of_one_model() -> list[WatchedTarget]:
    """EXP-38, with a label value that needs every escape."""
    right = WatchedTarget(TargetConfig("http://r:1", "http://r:1/metrics", 'ri\\g"h\nt'), 256, InternalErrors())
    left = left_target()
    left.take(GOOD, [FULL, replace(FULL, engine="1")])
    right.take(GOOD, [FULL])
    return [left, right]


def test_promtool_finds_nothing_to_say(promtool: str) -> None:
    text = whole_page(two_targets_of_one_model())
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_each_family_stands_once_with_its_samples_together() -> None:
    text = whole_page(two_targets_of_one_model())
    order = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    families = list(dict.fromkeys(order))
    assert order == sorted(order, key=families.index)
    assert [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")] == families
    assert len(set(text.splitlines())) == len(text.splitlines())


def test_strict_parsers_of_both_formats_read_the_same_samples() -> None:
    targets = two_targets_of_one_model()
    as_text = [s for family in text_families(whole_page(targets)) for s in family.samples]
    as_open = [s for family in openmetrics_families(whole_page(targets, OPENMETRICS)) for s in family.samples]
    read = [[(sample.name, sample.labels, sample.value) for sample in found] for found in (as_text, as_open)]
    assert read[0] == read[1]
    assert len(read[0]) == len([line for line in whole_page(targets).splitlines() if line[0] != "#"])
    assert 'ri\\g"h\nt' in {labels.get("target") for _, labels, _ in read[0]}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_text_survives_as_a_label_value(name: str) -> None:
    target = WatchedTarget(TargetConfig("http://x:1", "http://x:1/metrics", name), 256, InternalErrors())
    target.take(GOOD, [replace(FULL, engine=name)])
    text = page([target.lines], OPENMETRICS).decode()
    labels = [s.labels for family in openmetrics_families(text) for s in family.samples if "engine" in s.labels]
    assert {(found["target"], found["engine"]) for found in labels} == {(name, name)}


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            OPENMETRICS,
        ),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.9", TEXT),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=much", TEXT),
    ],
)
def test_the_format_is_the_one_asked_for(accept: str, form: object) -> None:
    assert format_for(accept) is form
