"""The locustfile under plain ``locust``: headless, distributed, with tags, and in the web interface."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def locust(repository: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``locust -f loadtests/locustfile.py`` with these words, in a folder of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "locust", "-f", str(repository / "loadtests" / "locustfile.py")]
        process = subprocess.Popen(
            [*command, *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "140"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert "Traceback" not in out, out[out.index("Traceback") :][:3000]
    return out


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


def test_headless_writes_our_section_and_results(engine: Any, locust: Any, tmp_path: Path) -> None:
    words = ["--headless", "-u", 2, "-t", "8s", "-s", 10, "--host", engine.url, "--requests", 20, "--seed", 7]
    tags = ["--tags", "rag", "--exclude-tags", "scene"]
    out = ended(locust(*words, *tags, "--html", "report.html", "--results", "results.json"))
    assert "seed 7" in out
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["requests"]["ok"] == len(engine.exchanges) == 20
    assert (results["seed"], results["cache"]["hit_rate"]) == (7, 0.0)
    page = (tmp_path / "report.html").read_text()
    assert page.count('id="hitcurve"') == 1
    assert "TTFT of misses p99" in page
    # Only rag-fixed-order is tagged "rag" and not "scene".
    assert set(re.findall(r'"method": "POST", "name": "([a-z-]+)"', page)) == {"rag-fixed-order"}


def test_lt_09_and_lt_12_figures_of_workers_arrive_and_no_two_prompts_share_a_block(
    engine: Any, locust: Any, tmp_path: Path
) -> None:
    for run in range(2):
        words = ["--headless", "-u", 4, "-r", 4, "-t", "60s", "-s", 10, "--host", engine.url, "--processes", 4]
        ended(locust(*words, "--requests", 100, "--results", f"{run}.json", "Unique", "--html", f"{run}.html"))
        results = json.loads((tmp_path / f"{run}.json").read_text())
        assert results["requests"] == {"sent": 400, "ok": 400, "failed": 0, "unfinished": 0}
        assert results["ttft_s"]["all"]["count"] == 400
        page = (tmp_path / f"{run}.html").read_text()
        assert re.search(r'"method": "TTFT miss", [^}]*"num_requests": 400', page)
    sent = [exchange.body["prompt"][:16] for exchange in engine.exchanges]
    assert len(set(sent)) == len(sent) == 800


def test_the_web_interface_has_our_tab(engine: Any, locust: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--web-host", "127.0.0.1", "--web-port", port, "--host", engine.url, "-u", 1, "-t", "60s"]
    locust(*words, "--autostart", "CustomerService")
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 30
    # A single user sends its fourth request once three are answered.
    while len(engine.exchanges) < 4 or not answers(url):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    page, stats = (urllib.request.urlopen(url + path, timeout=10).read() for path in ("/", "/stats/requests"))
    assert b'"extended_tabs": [{"key": "hitcurve", "title": "Hit rate and TTFT"}]' in page
    (table,) = json.loads(stats)["extended_stats"]
    assert table["key"] == "hitcurve"
    assert {"measure": "hit rate (cached / prompt tokens, clients)", "value": "0.0 %"} in table["data"]
    report = urllib.request.urlopen(f"{url}/stats/report", timeout=10).read()
    assert report.count(b'id="hitcurve"') == 1
    results = json.load(urllib.request.urlopen(f"{url}/hitcurve/results", timeout=10))
    assert results["requests"]["ok"] >= 3
    metrics = urllib.request.urlopen(f"{url}/hitcurve/metrics", timeout=10).read().decode()
    assert re.search(r'^hitcurve_load_ttft_seconds_count\{load="locust",worker="0"\} \d', metrics, re.MULTILINE)


def test_an_engine_that_does_not_answer_ends_the_test_with_one_sentence(locust: Any) -> None:
    process = locust("--headless", "-u", 1, "-t", "20s", "--host", "http://127.0.0.1:1", "Unique")
    out, _ = process.communicate(timeout=40)
    assert process.returncode == 3
    assert "no engine answers at http://127.0.0.1:1 (connection refused); start it or correct --host." in out


def test_the_shape_goes_from_one_user_over_a_ramp_to_all(repository: Path) -> None:
    program = """
import json, sys
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
from locust_shapes import ColdWarmSteady
shape = ColdWarmSteady()
shape.runner = SimpleNamespace(environment=SimpleNamespace(
    parsed_options=SimpleNamespace(num_users=20, run_time=100)))
ticks = []
for now in (0, 9, 10, 25, 39, 40, 99, 100):
    shape.get_run_time = lambda: now
    ticks.append(shape.tick())
print(json.dumps(ticks))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(repository / "loadtests")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [tick and tick[0] for tick in json.loads(done.stdout)] == [1, 1, 1, 10, 19, 20, 20, None]
