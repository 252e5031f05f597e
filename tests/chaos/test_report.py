"""The HTML report: from the records of a run to one page that opens without network and without complaints."""

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve.reading import CurveState, Reading, RequestWindowRate, WindowRate, as_json
from hitcurve_chaos.report import write_report
from hitcurve_chaos.report.figures import curves, drops, latency, percentile, time_range
from hitcurve_chaos.report.run_folder import RequestRow, load_run_folder

START = 1_760_000_000.0
FAULT = 30.0
STATES = [(0, "cold"), (4, "warming"), (14, "steady"), (30, "collapsed"), (32, "warming"), (44, "steady")]


def rate_at(second: int) -> float | None:
    if second in (20, 21):
        return None
    since = second if second < FAULT else second - FAULT
    return 0.86 * (1 - math.exp(-since / 4))


def reading(second: int) -> Reading:
    rate = rate_at(second)
    state = next(name for at, name in reversed(STATES) if second >= at)
    return Reading(
        target="http://127.0.0.1:8000/metrics",
        engine="0",
        at_s=START + second,
        up=True,
        windows=(WindowRate(5.0, 1000.0, 1000.0 * (rate or 0.0), rate), WindowRate(30.0, 6000.0, 3000.0, 0.5)),
        request_window=RequestWindowRate(1000, 1000.0, 0.8 - 0.002 * max(second - FAULT, 0), 33.0),
        cumulative_hit_rate=0.79,
        kv_usage=0.3 + 0.2 * math.sin(second / 5),
        preemptions_total=2.0,
        evicted_blocks_total=float(10 * second),
        state=CurveState(state, "reset" if state == "collapsed" else None, START + second),  # type: ignore[arg-type]
    )


def verdict(**changes: Any) -> dict[str, Any]:
    return {
        "scenario": "reset-prefix-cache",
        "title": "The prefix cache is reset under load",
        "verdict": "ok",
        "expected": "The rate-based hit rate falls at once and climbs back.",
        "seen": "It fell from 86.0 % to 0.0 % within 1 scrape & was steady again after 14 s <ok>.",
        "numbers": {"baseline_rate": 0.86, "scrapes_to_name": 1, "lag_s": None},
        "baseline_from_s": START + 14,
        "fault_from_s": START + FAULT,
        "fault_to_s": START + FAULT + 1,
        "recovered_at_s": START + 44,
        "finished_at_s": START + 55,
        "states": [{"at_s": START + 30, "state": "collapsed", "cause": "reset"}],
        "restored": True,
        "problems": [],
        **changes,
    }


def request_row(second: float, cached: int | None, ttft: float) -> dict[str, Any]:
    return {
        "at_s": START + second,
        "load": "background",
        "profile": "shared-system-prompt",
        "group": "7",
        "model": "simulated",
        "status": 200,
        "outcome": "ok",
        "reason": None,
        "ttft_s": ttft,
        "tpot_s": 0.004,
        "duration_s": ttft + 0.03,
        "prompt_tokens": 1000,
        "completion_tokens": 8,
        "cached_tokens": cached,
    }


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    run = {
        "hitcurve_version": "0.1.0",
        "seed": 7,
        "started_at_s": START,
        "finished_at_s": START + 60,
        "engine": {"kind": "sim", "version": "0.32.0", "url": "http://127.0.0.1:8000", "model": "simulated"},
        "exporter": None,
        "load": [],
        "scenarios": ["reset-prefix-cache"],
        "machine": {},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    lines = [json.dumps(as_json(reading(second))) for second in range(60)]
    (tmp_path / "readings.jsonl").write_text("\n".join(lines) + "\n")
    rows = [request_row(s / 2, 880 if s % 6 else 0, 0.02 if s % 6 else 0.11) for s in range(120)]
    rows.append(request_row(60, None, 0.02))
    (tmp_path / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "verdicts.json").write_text(json.dumps([verdict()]))
    (tmp_path / "journal.jsonl").write_text(
        json.dumps({"at_s": START + 30, "scenario": "reset-prefix-cache", "event": "fault_injected", "detail": {}})
    )
    return tmp_path


def test_the_page_shows_what_the_records_say(run_folder: Path) -> None:
    page = write_report(run_folder).read_text()
    for wanted in (
        "1 of 1 scenarios ok",
        "It fell from 86.0 % to 0.0 % within 1 scrape &amp; was steady again after 14 s &lt;ok&gt;.",
        "seed 7",
        "Requests that did not say how many of their tokens were cached: 1.",
        '<rect class="state collapsed"',
        "0:30",
    ):
        assert wanted in page, wanted
    assert "http://" not in page.replace("http://127.0.0.1:8000", "").replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_the_three_hit_rates_take_the_fault_differently(run_folder: Path) -> None:
    run = load_run_folder(run_folder)
    start, end = time_range(run)
    (curve,) = curves(run, start)
    rate, window, cumulative = drops(curve, FAULT - 0.5, end - start)
    assert (rate.before, rate.lowest, rate.seconds_to_lowest) == (pytest.approx(0.8594, abs=1e-4), 0.0, 0.5)
    assert (window.before, window.lowest, window.seconds_to_lowest) == (0.8, pytest.approx(0.742), 29.5)
    assert (cumulative.before, cumulative.lowest) == (0.79, 0.79)
    assert curve.rate_based.points[20] == (20.0, None)
    assert curve.evicted_per_s.points[0] == (1.0, 10.0)
    assert [name for _, _, name in curve.states.stretches] == [name for _, name in STATES]


def test_hits_and_misses_are_told_apart() -> None:
    rows = [
        RequestRow(0.0, "a", "ok", 0.1, 100, 50),
        RequestRow(0.0, "a", "ok", 0.2, 100, 49),
        RequestRow(0.0, "a", "ok", 0.3, 100, None),
        RequestRow(0.0, "a", "failed", 0.4, 100, 100),
    ]
    measured = latency(rows)
    assert (measured.hits, measured.misses, measured.unknown) == ([0.1], [0.2], 1)
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0
    assert percentile([], 0.5) is None


def test_a_run_that_died_is_still_shown(run_folder: Path) -> None:
    (run_folder / "verdicts.json").unlink()
    with (run_folder / "readings.jsonl").open("a") as file:
        file.write('{"target": "http')
    page = write_report(run_folder).read_text()
    assert "no scenario was run" in page
    assert "cut off" in page


def test_a_failed_scenario_and_an_empty_run_are_shown(run_folder: Path) -> None:
    (run_folder / "verdicts.json").write_text(
        json.dumps([verdict(verdict="bad", restored=False, problems=["3 requests failed"], fault_from_s=None)])
    )
    (run_folder / "requests.jsonl").unlink()
    (run_folder / "readings.jsonl").unlink()
    page = write_report(run_folder).read_text()
    for wanted in ("0 of 1 scenarios ok", "system not restored", "3 requests failed", "No request was measured."):
        assert wanted in page


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda d: (d / "run.json").unlink(), "is not a run folder: it holds no run.json"),
        (lambda d: (d / "run.json").write_text("{"), "run.json is not JSON (line 1)"),
        (lambda d: (d / "verdicts.json").write_text("{}"), "must hold a list of verdicts"),
        (lambda d: (d / "requests.jsonl").write_text("no\n{}\n"), "requests.jsonl, line 1 cannot be read"),
    ],
)
def test_unreadable_records_are_named(run_folder: Path, damage: Any, complaint: str) -> None:
    damage(run_folder)
    with pytest.raises(UsageError, match=r".") as caught:
        write_report(run_folder)
    assert complaint in str(caught.value)
    assert not (run_folder / "report.html").exists()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_in_chromium_without_complaints(run_folder: Path, width: int) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: install the package 'chromium'")
    page = write_report(run_folder)
    screenshot = run_folder / f"{width}.png"
    done = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *(
                "--disable-sync",
                "--no-first-run",
                "--disable-component-update",
                "--enable-logging=stderr",
                "--v=0",
            ),
            *(f"--user-data-dir={run_folder / 'profile'}", f"--window-size={width},900"),
            *(f"--screenshot={screenshot}", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert screenshot.stat().st_size > 10_000
    assert "CONSOLE" not in done.stderr, done.stderr
