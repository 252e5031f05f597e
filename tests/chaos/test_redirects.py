"""Chaos and its keys stay at the target: an answer that sends them elsewhere is not followed."""

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.calls import HttpTransport, NoAnswer
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.faults.adapters import AdapterEndpoints, unload_all
from hitcurve_chaos.faults.reset import ResetFault
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.runner import run_scenarios


class Elsewhere:
    """Two servers: everything at ``url`` redirects to the other, which keeps what reaches it."""

    def __init__(self, status: int) -> None:
        self.reached: list[tuple[str, dict[str, str]]] = []
        reached = self.reached

        class Goal(_Quiet):
            def answer(self) -> None:
                reached.append((self.path, dict(self.headers)))
                self.reply(200, json.dumps({"success": True, "data": [], "choices": [{}]}))

        class Signpost(_Quiet):
            def answer(self) -> None:
                self.reply(status, "gone", Location=f"{goal_url}{self.path}")

        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (Goal, Signpost)]
        goal_url, self.url = (f"http://127.0.0.1:{server.server_address[1]}" for server in self._servers)
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            for server in self._servers
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


class _Quiet(BaseHTTPRequestHandler):
    def reply(self, status: int, body: str, **headers: str) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def answer(self) -> None: ...

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture(params=[301, 302, 303, 307, 308])
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    monkeypatch.setenv("HITCURVE_API_KEY", "secret-key")
    servers = Elsewhere(request.param)
    yield servers
    servers.close()


def test_no_call_follows_a_redirect(elsewhere: Elsewhere) -> None:
    transport = HttpTransport()
    key = {"Authorization": "Bearer secret-key"}
    for method, body in (("GET", None), ("POST", None), ("POST", {"a": 1})):
        answer = transport.send(method, f"{elsewhere.url}/v1/models", json_body=body, headers=key)
        assert answer.redirects
        assert "a redirect and not followed; put the engine's own address into the target file" in answer.said
    assert elsewhere.reached == []


def test_a_redirected_reset_is_unsupported_at_once(
    scripted: ModuleType, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    target, transport = scripted.target_at(elsewhere.url), HttpTransport()
    probe = Probe(target, transport, random.Random(7), SystemClock(), tmp_path / "requests.jsonl")
    injection = ResetFault(target, transport, probe, SystemClock(), True, None).inject()
    assert (injection.outcome, len(injection.detail["attempts"])) == ("unsupported", 1)
    assert injection.sentence.startswith("the reset was not done (3")
    assert "not followed" in json.loads((tmp_path / "requests.jsonl").read_text().splitlines()[0])["reason"]
    assert elsewhere.reached == []


def test_redirected_adapters_are_not_unloaded(scripted: ModuleType, elsewhere: Elsewhere) -> None:
    undo = unload_all(
        AdapterEndpoints(scripted.target_at(elsewhere.url), HttpTransport()), "chaos-", known=["chaos-a"]
    )
    assert not undo.restored
    assert undo.sentence.count("a redirect and not followed") == 2
    assert elsewhere.reached == []


def test_churn_on_an_engine_that_redirects_is_invalid_and_loads_nothing(scripted: ModuleType, world: Any) -> None:
    world.load_adapter_status = 307
    target, tools = scripted.target_at("http://127.0.0.1:1"), scripted.tools_of(world)
    settings = {"baseline": 3, "baseline_within": 20, "hold": 4, "recover_within": 12}
    (verdict,) = run_scenarios(target, ["lora-churn"], world.folder, 7, settings, tools=tools)
    assert (verdict.verdict, verdict.restored) == ("invalid", True)
    assert "unsupported" in verdict.seen
    assert "a redirect and not followed" in verdict.seen


def test_what_is_no_http_is_no_answer() -> None:
    class Mumbler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.wfile.write(b"garbage\r\n\r\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mumbler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with pytest.raises(NoAnswer):
            HttpTransport().send("GET", f"http://127.0.0.1:{server.server_address[1]}/")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
