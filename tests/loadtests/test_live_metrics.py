"""The metrics that a load serves while it runs."""

import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hitcurve_loadtests.live_metrics import LOAD_METRICS, LiveMetrics
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.summary import RunTotals


def record(**values: Any) -> RequestRecord:
    words = dict.fromkeys(("load", "profile", "group", "model"), "x")
    good = {"status": 200, "outcome": "ok", "reason": None, "ttft_s": 0.015, "tpot_s": 0.01, "duration_s": 0.3}
    counts = {"prompt_tokens": 100, "completion_tokens": 4, "cached_tokens": 64, "late_s": None}
    return RequestRecord(**{"at_s": 0.0, **words, **good, **counts, **values})


def samples(page: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name and by the values of all labels but load and worker."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(page):
        for one in family.samples:
            assert (one.labels["load"], one.labels["worker"]) == ("mine", "0")
            rest = tuple(value for name, value in one.labels.items() if name not in ("load", "worker"))
            found.setdefault(one.name, {})[rest] = one.value
    return found


def page_of(totals: RunTotals) -> str:
    registry = CollectorRegistry()
    LiveMetrics(lambda: totals, registry, load="mine", worker=0, max_lag_s=0.1)
    return generate_latest(registry).decode()


def test_all_figures_of_a_run() -> None:
    totals = RunTotals(sent=5)
    totals.add(record())
    totals.add(record(ttft_s=0.2, cached_tokens=0, late_s=0.05))
    totals.add(record(ttft_s=1000.0, cached_tokens=None))
    totals.add(record(outcome="failed", reason="HTTP 500", cached_tokens=None))
    totals.hub_lagged(0.004)
    found = samples(page_of(totals))
    assert found["hitcurve_load_requests_total"] == {("ok",): 3, ("failed",): 1}
    assert found["hitcurve_load_failures_total"] == {("HTTP 500",): 1}
    plain = {name: values[()] for name, values in found.items() if () in values and "seconds" not in name}
    assert plain == {
        "hitcurve_load_sent_requests_total": 5,
        "hitcurve_load_query_tokens_total": 200,
        "hitcurve_load_hit_tokens_total": 64,
        "hitcurve_load_unknown_requests_total": 2,
        "hitcurve_load_completion_tokens_total": 12,
        "hitcurve_load_invalid": 1,
    }
    ttft = found["hitcurve_load_ttft_seconds_bucket"]
    assert [ttft[(bound,)] for bound in ("0.01", "0.02", "0.1", "0.2", "100.0", "+Inf")] == [0, 1, 1, 2, 2, 3]
    assert found["hitcurve_load_ttft_seconds_sum"][()] == pytest.approx(1000.215)
    assert found["hitcurve_load_ttft_hits_seconds_count"][()] == 1
    assert found["hitcurve_load_ttft_misses_seconds_count"][()] == 1
    assert found["hitcurve_load_hub_lag_seconds_count"][()] == 1
    assert found["hitcurve_load_send_lag_seconds_sum"][()] == pytest.approx(0.05)


def test_what_was_not_measured_has_no_sample() -> None:
    found = samples(page_of(RunTotals()))
    assert not [name for name in found if "seconds" in name or "failures" in name]
    assert found["hitcurve_load_invalid"] == {(): 0}


def test_promtool_has_nothing_to_say_about_the_page(promtool: str) -> None:
    totals = RunTotals(sent=1)
    totals.add(record(late_s=0.0))
    totals.hub_lagged(0.001)
    done = subprocess.run([promtool, "check", "metrics"], input=page_of(totals), capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_documentation_lists_them(repository: Path) -> None:
    text = (repository / "docs/loadtests.md").read_text()
    for metric in LOAD_METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        assert f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |" in text


def test_the_page_can_be_read_while_the_load_runs(engine: Any, start_load: Any) -> None:
    words = ("unique", "--host", engine.url, "--users", 1, "--duration", 60, "--name", "mine")
    process = start_load(*words, "--metrics-port", 0)
    url = next(line for line in process.stderr if "metrics at" in line).split()[-1]
    finished = 0.0
    while finished < 3:
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            found = samples(answer.read().decode())
        finished = found["hitcurve_load_requests_total"][("ok",)]
    assert found["hitcurve_load_ttft_seconds_count"][()] == finished
    assert found["hitcurve_load_query_tokens_total"][()] == 100 * finished
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_port_that_is_taken_is_named(engine: Any, load: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = load("unique", "--host", engine.url, "--users", 1, "--requests", 1, "--metrics-port", port)
    assert ended.code == 3
    said = ended.err.splitlines()[-1]
    assert said.startswith(f"hitcurve: metrics cannot be served at 127.0.0.1:{port} (Address already in use); ")


def test_an_address_that_is_none_is_named(engine: Any, load: Any) -> None:
    words = ("unique", "--host", engine.url, "--users", 1, "--requests", 1, "--metrics-port", 0)
    ended = load(*words, "--metrics-address", "256.0.0.1")
    assert ended.code == 3
    said = ended.err.splitlines()[-1]
    assert said.startswith("hitcurve: metrics cannot be served at 256.0.0.1:0 (")
    assert "Unknown error" not in said
    assert "attempting" not in said


def test_ports_of_all_processes_must_exist(engine: Any, load: Any) -> None:
    ended = load("unique", "--host", engine.url, "--processes", 2, "--metrics-port", 65535)
    assert ended.code == 2
    assert "--metrics-port 65535 leaves too few ports for 2 processes; name a lower one." in ended.err


def test_several_processes_need_a_first_port(engine: Any, load: Any) -> None:
    ended = load("unique", "--host", engine.url, "--processes", 2, "--metrics-port", 0)
    assert ended.code == 2
    assert "name the first port" in ended.err
