"""Spans and metrics of the engine patch on a real vLLM server: one API server, and two with two engines.

What our spans and our metrics say adds up to vLLM's own counters, also under Locust's traffic, and every span is
in the trace it came with.
"""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import Request, urlopen

import pytest

from hitcurve.child import ChildProcess
from hitcurve.readers import read_page
from hitcurve_chaos.demo.engines import find_tiny_model
from hitcurve_engine.ledger import MISS_REASONS

pytestmark = pytest.mark.real_vllm

START_S = 300.0
SETTLE_S = 30.0
ENTRY_POINTS = "[vllm.general_plugins]\nhitcurve = hitcurve_engine.plugin:register\n"
SECRET = "a-salt-that-must-not-leave"


@pytest.fixture
def plugin_path(repository: Path, vllm_version: str, tmp_path: Path) -> str:
    """A PYTHONPATH on which the patch is installed, and vLLM's own name, as ``vllm serve`` needs it."""
    packages = {"hitcurve": (ENTRY_POINTS, "0.1"), "vllm": ("", f"{vllm_version}+cpu")}
    for name, (entry_points, version) in packages.items():
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / "entry_points.txt").write_text(entry_points)
    return os.pathsep.join([str(tmp_path / "site"), str(repository), str(repository / "engine_patch")])


@pytest.fixture
def serve(vllm_python: Path, plugin_path: str, otlp_receiver: Any, tmp_path: Path) -> Callable[..., Any]:
    """Starts ``vllm serve`` with the tiny model of the demo; the address once it is healthy."""

    @contextmanager
    def started(*options: str, **variables: str) -> Iterator[str]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        model = find_tiny_model(vllm_python)
        command = [
            *(str(vllm_python), "-m", "vllm.entrypoints.cli.main", "serve", str(model / "model")),
            *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"),
            *("--max-model-len", "2048", "--block-size", "32", "--num-gpu-blocks-override", "65"),
            *("--max-num-seqs", "8", "--otlp-traces-endpoint", otlp_receiver.url, *options),
        ]
        environment = {
            "PYTHONPATH": plugin_path,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "HITCURVE_OUTCOME_FILE": str(tmp_path / "outcomes-{pid}.jsonl"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONWARNINGS": "ignore",
            **variables,
        }
        process = ChildProcess("vLLM", command, tmp_path / "vllm.log", environment=environment)
        try:
            process.start().wait_healthy(f"http://127.0.0.1:{port}/health", START_S)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.stop()

    return started


def post(url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    sent = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"} | (headers or {}))
    with urlopen(sent, timeout=120) as answer:
        return json.loads(answer.read() or b"null")


def trace_of(number: int) -> str:
    return f"{number + 1:032x}"


def complete(url: str, number: int, text: str, model: str = "tiny", **more: Any) -> None:
    body = {"model": model, "prompt": text, "max_tokens": 4, "temperature": 0, **more}
    post(f"{url}/v1/completions", body, {"traceparent": f"00-{trace_of(number)}-00000000000000ff-01"})


def prompt(family: int, number: int) -> str:
    """300 tokens: 200 shared by a family, 100 of its own."""
    return f"family {family} ".ljust(200, "x") + f"request {number} ".ljust(100, "y")


def drive(url: str, requests: int) -> None:
    """Several at once: five prompts of a family, then the next family, more of them than the pool holds."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: complete(url, number, prompt(number // 5, number)), range(requests)))


def locust(url: str, profile: str, *options: str) -> int:
    """Locust's traffic of a profile, a pool too small for it; how many requests the engine took of it."""
    before = total(page_of(url), "vllm:request_success_total")
    words = ["--host", url, "--users", "4", "--requests", "60", "--output-tokens", "8", "--max-lag", "10"]
    done = subprocess.run(
        [sys.executable, "-m", "hitcurve", "load", profile, *words, *options],
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    sent = total(page_of(url), "vllm:request_success_total") - before
    assert sent >= 60
    return int(sent)


def page_of(url: str) -> str:
    with urlopen(f"{url}/metrics", timeout=30) as answer:
        return answer.read().decode()


def total(page: str, name: str, **labels: str) -> float:
    """Sum over the series of a name that have these labels."""
    found = re.findall(rf"^{re.escape(name)}\{{(.*)\}} (\S+)$", page, re.MULTILINE)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for pairs, value in found if all(pair in pairs for pair in wanted))


def settled(url: str, requests: int) -> str:
    """The page once every request is in the patch's metrics, as it is a second behind."""
    deadline = monotonic() + SETTLE_S
    while monotonic() < deadline:
        page = page_of(url)
        if total(page, "hitcurve_engine_requests_total") == requests:
            return page
        sleep(0.2)
    raise AssertionError(
        f"the patch counts {total(page, 'hitcurve_engine_requests_total')} of {requests} requests"
    )


def check_sums(page: str, engines: list[str]) -> None:
    for engine in engines:
        ours = {
            name: total(page, f"hitcurve_engine_{name}_tokens_total", engine=engine)
            for name in ("query", "hit", "miss")
        }
        assert ours["query"] == total(page, "vllm:prefix_cache_queries_total", engine=engine) > 0
        assert ours["hit"] == total(page, "vllm:prefix_cache_hits_total", engine=engine) > 0
        assert ours["hit"] + ours["miss"] == ours["query"]
        assert total(page, "hitcurve_engine_active", engine=engine) == 1
        assert total(page, "hitcurve_engine_evicted_blocks_total", engine=engine) > 0
        assert total(page, "hitcurve_engine_evicted_block_age_seconds_count", engine=engine) == total(
            page, "hitcurve_engine_evicted_blocks_total", engine=engine
        )
        assert total(page, "hitcurve_engine_overhead_seconds_total", engine=engine, thread="recorder") > 0
        assert total(page, "hitcurve_engine_errors_total", engine=engine) == 0
        assert total(page, "hitcurve_engine_dropped_events_total", engine=engine) == 0
    assert len(re.findall(r"^# TYPE hitcurve_engine_query_tokens_total ", page, re.MULTILINE)) == 1


def requests_among(spans: list[Any]) -> list[Any]:
    return [one for one in spans if one.span.name == "prefix_cache.request"]


def check_spans(receiver: Any, page: str, traces: set[str]) -> list[Any]:
    receiver.wait(lambda: len(requests_among(receiver.spans())) == len(traces), SETTLE_S)
    spans = receiver.spans()
    ours = requests_among(spans)
    assert {one.span.trace_id.hex() for one in ours} == traces
    assert {one.span.parent_span_id.hex() for one in ours} == {"00000000000000ff"}
    for one in ours:
        said = one.attributes
        misses = sum(said[f"hitcurve.miss_tokens.{reason}"] for reason in MISS_REASONS)
        assert said["hitcurve.hit_tokens"] + misses == said["hitcurve.query_tokens"]
        assert said["gen_ai.usage.cache_read.input_tokens"] == said["hitcurve.hit_tokens"]
        assert said["gen_ai.response.finish_reasons"] == ["length"]
    for name in ("query", "hit"):
        summed = sum(one.attributes[f"hitcurve.{name}_tokens"] for one in ours)
        assert summed == total(page, f"hitcurve_engine_{name}_tokens_total")
    by_trace = {one.span.trace_id: one.span for one in ours}
    theirs = [one.span for one in spans if one.span.name == "llm_request"]
    assert {span.trace_id for span in theirs} == set(by_trace)
    for span in theirs:
        # Arrival is vLLM's own figure in both.
        assert abs(span.start_time_unix_nano - by_trace[span.trace_id].start_time_unix_nano) < 1_000
    evicted = [one for one in spans if one.span.name == "prefix_cache.eviction"]
    assert {one.span.parent_span_id for one in evicted} <= {one.span.span_id for one in ours}
    assert sum(one.attributes["hitcurve.evicted_blocks"] for one in evicted) == total(
        page, "hitcurve_engine_evicted_blocks_total"
    )
    assert any(one.span.links for one in evicted)
    return ours


def test_one_api_server_shows_metrics_and_sends_spans(serve: Any, otlp_receiver: Any, vllm_python: Path) -> None:
    options = ("--enable-lora", "--max-lora-rank", "8", "--lora-modules")
    with serve(*options, *adapters(vllm_python)) as url:
        drive(url, 60)
        complete(url, 60, prompt(0, 0), model="alpha")
        complete(url, 61, prompt(90, 0))
        complete(url, 62, prompt(90, 0), cache_salt=SECRET)
        assert post(f"{url}/reset_prefix_cache", {}) == {"success": True}
        complete(url, 63, prompt(90, 0))
        page = settled(url, 64)
        check_sums(page, ["0"])
        ours = check_spans(otlp_receiver, page, {trace_of(number) for number in range(64)})
        by_trace = {one.span.trace_id.hex(): one.attributes for one in ours}
        assert total(page, "hitcurve_engine_requests_total", adapter="alpha") == 1
        assert by_trace[trace_of(60)]["hitcurve.adapter"] == "alpha"
        salted = by_trace[trace_of(62)]
        assert (salted["hitcurve.cache_salt.present"], salted["hitcurve.isolated_by"]) == (True, ["salt"])
        assert salted["hitcurve.miss_tokens.isolated"] > 0
        assert by_trace[trace_of(63)]["hitcurve.miss_tokens.reset"] > 0
        (reset,) = [one for one in otlp_receiver.spans() if one.span.name == "prefix_cache.reset"]
        assert reset.attributes["hitcurve.reset.done"] is True
        assert reset.attributes["hitcurve.reset.cleared_blocks"] == total(
            page, "hitcurve_engine_cleared_blocks_total"
        )
        (read,) = read_page(page, "text/plain", at_s=0.0, monotonic_s=0.0)
        assert (read.resets, read.evictions) == (1, total(page, "hitcurve_engine_evicted_blocks_total"))
        sent = locust(
            url, "multi-turn", "--sessions", "6", "--model", "tiny", "--model", "alpha", "--model", "beta"
        )
        page = settled(url, 64 + sent)
        check_sums(page, ["0"])
        assert total(page, "hitcurve_engine_query_tokens_total", adapter="beta") > 0
        otlp_receiver.wait(lambda: len(requests_among(otlp_receiver.spans())) == 64 + sent, SETTLE_S)
    assert not any(
        text.encode() in body for body in otlp_receiver.bodies for text in (SECRET, "xxxxxxxx", "yyyyyyyy")
    )


def adapters(python: Path) -> list[str]:
    folder = find_tiny_model(python) / "adapters"
    return [f"{name}={folder / name}" for name in ("alpha", "beta")]


def test_two_api_servers_and_two_engines_give_right_sums(serve: Any, otlp_receiver: Any) -> None:
    two = ("--api-server-count", "2", "--data-parallel-size", "2")
    with serve(*two, VLLM_CPU_OMP_THREADS_BIND="0|1") as url:
        drive(url, 120)
        page = settled(url, 120)
        check_sums(page, ["0", "1"])
        ours = check_spans(otlp_receiver, page, {trace_of(number) for number in range(120)})
        assert {one.resource["hitcurve.engine.index"] for one in ours} == {0, 1}
        read = read_page(page, "text/plain", at_s=0.0, monotonic_s=0.0)
        assert [(one.engine, one.resets) for one in read] == [("0", 0), ("1", 0)]
