"""``hitcurve watch`` as a process, on engines of loopback servers."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hitcurve.errors import BadFinding, EnvironmentFailed
from hitcurve.reading import CurveState, Reading
from hitcurve.watch.command import print_once
from hitcurve.watch.replica import Replica, Round

PAGE = b"""# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 250
"""
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def engine() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hitcurve", "watch", *words]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_once_prints_a_table(engine: str) -> None:
    ended = run(engine, "--once")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.split() for line in ended.stdout.splitlines()] == [
        ["replica", "state", "now", "last", "N", "start"],
        [engine.removeprefix("http://"), "cold", "–", "–", "25.0%"],
    ]


def test_once_json_is_one_document_and_never_loads_the_view(engine: str) -> None:
    probe = (
        "import sys; from hitcurve.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: assert 'textual' not in sys.modules"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe, "watch", engine, "--once", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    document = json.loads(ended.stdout)
    assert document.keys() == {"version", "at_s", "engines"}
    (found,) = document["engines"]
    assert (found["target"], found["engine"], found["up"], found["cumulative_hit_rate"]) == (
        engine,
        "0",
        True,
        0.25,
    )


def test_an_engine_that_does_not_answer_ends_with_3_after_the_table(engine: str) -> None:
    ended = run(engine, NOBODY, "--once")
    assert ended.returncode == 3
    assert ended.stdout.count("\n") == 3
    assert ended.stderr == "hitcurve: 127.0.0.1:9 cannot be read: connection refused; check the address.\n"


def test_json_streams_lines_until_ctrl_c(engine: str) -> None:
    started = subprocess.Popen(command(engine, "--json", "--interval", "0.05"), stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    lines = [json.loads(started.stdout.readline()) for _ in range(3)]
    os.kill(started.pid, signal.SIGINT)
    started.communicate(timeout=30)
    assert started.returncode == 130
    assert [line["engines"][0]["target"] for line in lines] == [engine] * 3
    assert lines[0]["at_s"] < lines[1]["at_s"] < lines[2]["at_s"]


def test_without_a_terminal_the_view_says_what_to_do(engine: str) -> None:
    ended = run(engine)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "use --once or --json where there is none." in ended.stderr


@pytest.mark.parametrize("option", ["--interval", "--window", "--timeout"])
def test_times_must_be_above_zero(option: str, engine: str) -> None:
    ended = run(engine, "--once", option, "0")
    assert (ended.returncode, ended.stderr) == (
        2,
        f"hitcurve: {option} is 0; give a number of seconds above 0.\n",
    )


@pytest.mark.parametrize(
    ("state", "word"), [(None, "unhealthy or unknown"), (CurveState("low", "unknown", 0.0), "unhealthy")]
)
def test_a_replica_that_is_unhealthy_or_tells_nothing_is_a_finding(state: CurveState | None, word: str) -> None:
    replica = Replica("a:8000", Reading("http://a:8000", "0", 0.0, up=True, state=state))
    with pytest.raises(BadFinding, match=f"^a:8000: {word}; "):
        print_once(Round(0.0, (replica,)), as_json=True)


def test_an_exporter_without_replicas_is_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EnvironmentFailed, match="no replica is known there yet"):
        print_once(Round(0.0, ()), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"version": 1, "at_s": 0.0, "engines": []}
