"""Every example is run as its first lines say, and gives what it is for."""

import ast
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hitcurve.child import ChildProcess
from hitcurve_engine.ledger import Outcome
from hitcurve_engine.recording.outcome_file import OutcomeFile
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, RequestContext

MOST_LINES = 80
START_S = 60.0
WALL_OFFSET_S = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Stack:
    """A simulated engine with an exporter beside it, after a load of our own profile and a reset."""

    exporter: str
    load: dict[str, Any]


def python(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=90, env={**os.environ, "NO_COLOR": "1", **environment}
    )


def post(url: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def stack(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("examples")
    engine_words = ["engine", "--port", "0", "--speed", "8", "--patched"]
    with ChildProcess(
        "engine", [sys.executable, "-m", "hitcurve", *engine_words], folder / "engine.log"
    ) as engine:
        url = engine.wait_listening(START_S)
        words = ["exporter", "--target", url, "--listen", "127.0.0.1:0", "--interval", "200ms"]
        with ChildProcess(
            "exporter", [sys.executable, "-m", "hitcurve", *words], folder / "exporter.log"
        ) as second:
            exporter = second.wait_listening(START_S)
            profile = repository / "examples" / "load_profile.yaml"
            load = python(
                *("-m", "hitcurve", "load", profile, "--host", url, "--users", "4", "--requests", "150"),
                *("--max-lag", "5", "--json"),
            )
            assert load.returncode == 0, load.stderr
            assert post(f"{url}/reset_prefix_cache?reset_running_requests=true") == {"success": True}
            again = python(
                *("-m", "hitcurve", "load", profile, "--host", url, "--users", "4", "--requests", "60"),
                *("--max-lag", "5", "--json"),
            )
            assert again.returncode == 0, again.stderr
            yield Stack(exporter, json.loads(load.stdout))


def test_the_table_names_every_example_and_each_is_short(repository: Path) -> None:
    folder = repository / "examples"
    files = {path.name for path in folder.iterdir() if path.suffix in (".py", ".yaml")}
    assert set(re.findall(r"^\| \[([\w.]+)\]\(\1\)", (folder / "README.md").read_text(), re.MULTILINE)) == files
    for name in files:
        text = (folder / name).read_text()
        assert len(text.splitlines()) < MOST_LINES, name
        if name.endswith(".py"):
            assert f"examples/{name}" in (ast.get_docstring(ast.parse(text)) or ""), f"{name} says how to run it"


def test_cache_rules(repository: Path) -> None:
    shown = python(repository / "examples" / "cache_rules.py")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.findall(r"(\d+) of +\d+ tokens from the cache$", shown.stdout, re.MULTILINE) == [
        "0",  # first sight
        "64",  # four blocks of the shared prefix
        "48",  # the block with the last token is computed
        "0",  # another adapter has blocks of its own
        "0",  # fills the pool, and evicts
        "0",  # so the prefix is gone
    ]


def test_load_profile(stack: Stack) -> None:
    assert stack.load["verdict"] == "ok"
    assert stack.load["requests"] == {"sent": 150, "ok": 150, "failed": 0, "unfinished": 0}
    # 147 of 150 requests find the 900 tokens of their manual, in front of 40 of their own on average.
    assert 0.9 < stack.load["cache"]["hit_rate"] < 0.96


def test_history_api(repository: Path, stack: Stack) -> None:
    shown = python(repository / "examples" / "history_api.py", stack.exporter, "10m")
    assert shown.returncode == 0, shown.stderr
    head, *events = shown.stdout.splitlines()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/0: (8[5-9]|9\d)\.\d% of [12]\d\d,\d{3} tokens", head), head
    assert any(event.endswith(" cut: reset") for event in events), shown.stdout
    states = [event.split()[1] for event in events if not event.split()[1].startswith(("cut:", "to"))]
    assert {"cold", "warming"} & set(states), shown.stdout


def test_chaos_scenario(repository: Path) -> None:
    shown = python(repository / "examples" / "chaos_scenario.py")
    assert (shown.returncode, shown.stdout) == (
        0,
        "second-turn: ok. A chat of two turns, 128 tokens of the first in full blocks.\n",
    ), shown.stderr


def test_drill_as_test(repository: Path, tmp_path: Path) -> None:
    targets = tmp_path / "targets.yaml"
    targets.write_text('targets:\n- name: own\n  start: {options: [--speed, "10"]}\n')
    words = ["-q", "-p", "no:locust", "-p", "no:cacheprovider", "-p", "hitcurve_chaos.pytest_plugin"]
    file = repository / "examples" / "drill_as_test.py"
    with_targets = python("-m", "pytest", *words, file, "--chaos-targets", targets)
    assert with_targets.returncode == 0, with_targets.stdout
    assert "2 passed" in with_targets.stdout


def outcome(name: str, at_s: float, query: int, hit: int, **reasons: int) -> FinishedRequest:
    missed: Any = {reason: reasons.get(reason, 0) for reason in ("compulsory", "capacity", "reset", "tail")}
    return FinishedRequest(
        Outcome(name, "looked_up", query, None, query, hit, missed, scheduled_at_s=at_s - WALL_OFFSET_S),
        RequestContext(),
    )


def test_metrics_and_spans(repository: Path, tmp_path: Path) -> None:
    with (tmp_path / "outcomes.jsonl").open("w") as stream:
        facts = EngineFacts(block_size=16, pool_blocks=64, groups=1, pid=1, wall_offset_s=WALL_OFFSET_S)
        file = OutcomeFile(stream, facts)
        file.request_finished(outcome("a", 1_000_101.0, 1000, 0, compulsory=992, tail=8))
        file.request_finished(outcome("b", 1_000_104.0, 1000, 992, tail=8))
        file.request_finished(outcome("c", 1_000_111.0, 1000, 96, capacity=896, tail=8))
        file.request_finished(
            FinishedRequest(Outcome("d", "skipped", 500, scheduled_at_s=112.0), RequestContext())
        )
    points = [
        {"from_s": 1_000_100, "to_s": 1_000_105, "queries": 2000.0, "hits": 992.0, "hit_rate": 0.496},
        {"from_s": 1_000_105, "to_s": 1_000_110, "queries": 0.0, "hits": 0.0, "hit_rate": None},
        {"from_s": 1_000_110, "to_s": 1_000_115, "queries": 1600.0, "hits": 96.0, "hit_rate": 0.06},
    ]
    (tmp_path / "curve.json").write_text(json.dumps({"points": points}))
    program = repository / "examples" / "metrics_and_spans.py"
    shown = python(program, tmp_path / "curve.json", tmp_path / "outcomes.jsonl")
    assert shown.stderr == ""
    assert shown.stdout.splitlines() == [
        "1000100  49.6%    2000 tokens  compulsory 49.6%, tail 0.8%",
        "1000110   6.0%    1000 tokens (counters: 1600 tokens)  capacity 89.6%, tail 0.8%",
    ]


class StandIn:
    """A server that answers GET from a table, takes every POST, and keeps what was posted with its credentials."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.posted: dict[str, tuple[Any, str]] = {}
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = stand_in.answers.get(self.path.partition("?")[0])
                self._answer(404 if found is None else 200, found or {"message": "not found"})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stand_in.posted[self.path] = (body, self.headers["Authorization"])
                self._answer(200, {"status": "success"})

            def _answer(self, status: int, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_history_api_says_what_is_known_and_nothing_else(repository: Path, stand_in: StandIn) -> None:
    stand_in.answers["/api/v1/engines"] = {"engines": [{"target": "chat-0", "engine": "0"}]}
    stand_in.answers["/api/v1/engines/chat-0%2F0/curve"] = {
        "points": [{"queries": 0.0, "hits": 0.0}],
        "states": [{"at_s": 3600.0, "state": "collapsed", "cause": "reset"}],
        "cuts": [{"at_s": 3599.0, "kind": "reset"}],
        "episodes": [
            {"from_s": 60.0, "to_s": 120.0, "cause": "pool_pressure", "depth": 0.4, "lost_tokens": 12_345.0},
            {"from_s": 3600.0, "to_s": None, "cause": "reset", "depth": None, "lost_tokens": None},
        ],
    }
    shown = python(repository / "examples" / "history_api.py", stand_in.url, TZ="UTC")
    assert shown.stdout.splitlines() == [
        "chat-0/0: no traffic",
        "  01:00:00 collapsed (reset)",
        "  00:59:59 cut: reset",
        "  00:01:00 to 00:02:00: an incident, pool_pressure, 40 points deep, 12,345 tokens computed again",
        "  01:00:00 to now: an incident, reset",
    ], shown.stderr


def test_grafana_push(repository: Path, stand_in: StandIn) -> None:
    shown = python(repository / "examples" / "grafana_push.py", stand_in.url, GRAFANA_TOKEN="glsa_example")
    assert (shown.returncode, shown.stdout) == (0, "team-hit-rate-wall: created\n"), shown.stderr
    assert stand_in.posted["/api/folders"][0] == {"uid": "team", "title": "Team"}
    saved, authorization = stand_in.posted["/api/dashboards/db"]
    assert authorization == "Bearer glsa_example"
    assert (saved["folderUid"], saved["dashboard"]["uid"]) == ("team", "team-hit-rate-wall")
    (query,) = [target["expr"] for panel in saved["dashboard"]["panels"] for target in panel.get("targets", [])]
    assert "hitcurve_hit_tokens_total" in query
