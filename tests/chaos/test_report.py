"""The HTML report: from the records of a run to one page that opens without network and without complaints."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve_chaos.report import write_report
from hitcurve_chaos.report.figures import curves, drops, latency, percentile, time_range
from hitcurve_chaos.report.run_folder import RequestRow, load_run_folder

FAULT = 30.0
STATES = ["cold", "warming", "steady", "collapsed", "warming", "steady"]


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
    assert [name for _, _, name in curve.states.stretches] == STATES


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
    failed = {"verdict": "bad", "restored": False, "problems": ["3 requests failed"], "fault_from_s": None}
    (run_folder / "verdicts.json").write_text(
        json.dumps([{**json.loads((run_folder / "verdicts.json").read_text())[0], **failed}])
    )
    (run_folder / "requests.jsonl").unlink()
    (run_folder / "readings.jsonl").unlink()
    page = write_report(run_folder).read_text()
    for wanted in ("0 of 1 scenarios ok", "system not restored", "3 requests failed", "No request was measured."):
        assert wanted in page


def test_a_page_that_cannot_be_written_leaves_nothing(run_folder: Path) -> None:
    (run_folder / "report.html").mkdir()
    before = set(run_folder.iterdir())
    with pytest.raises(
        UsageError, match=r"report\.html cannot be written \(Is a directory\); move away what is there"
    ):
        write_report(run_folder)
    assert set(run_folder.iterdir()) == before


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
