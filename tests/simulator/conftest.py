"""A simulated engine on a loopback port, in a thread of the test process."""

import asyncio
import http.client
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from hitcurve_simulator.server.application import SERVING, build_application
from hitcurve_simulator.server.clock import Clock, VirtualClock
from hitcurve_simulator.server.running import start_listening
from hitcurve_simulator.server.serving import Serving
from hitcurve_simulator.server.settings import EngineSettings

DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body of an HTTP answer."""

    status: int
    content_type: str
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        """Data of server-sent events; the last one, ``[DONE]``, as text."""
        lines = [line.removeprefix("data: ") for line in self.text.splitlines() if line]
        return [*map(json.loads, lines[:-1]), lines[-1]]


class EngineServer:
    """One running engine; every call is a real HTTP request."""

    def __init__(self, settings: EngineSettings, clock: Clock | None, **parts: Any) -> None:
        self.url = ""
        self.serving: Serving
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(settings, clock, parts))
        self._thread.start()
        assert self._ready.wait(DEADLINE_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """``body`` is sent as JSON."""
        parts = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_S)
        data = None if body is None else json.dumps(body)
        sent = {**({} if body is None else {"Content-Type": "application/json"}), **(headers or {})}
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers.get("Content-Type", ""), answer.read().decode())
        finally:
            connection.close()

    def complete(self, prompt: Any, **body: Any) -> Answer:
        sent = {"prompt": prompt, "max_tokens": 4, "ignore_eos": True, **body}
        return self.call("POST", "/v1/completions", sent)

    def chat(self, messages: list[dict[str, str]], **body: Any) -> Answer:
        return self.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 4, **body})

    def series(self) -> dict[str, float]:
        """Value of each series on /metrics, by name with labels, common labels left out."""
        values = {}
        for line in self.call("GET", "/metrics").text.splitlines():
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                values[_shortened(series)] = float(value)
        return values

    def wait_for(self, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """Series of the page once they meet a condition."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition(series := self.series()):
            assert time.monotonic() < deadline, "the page never showed what was waited for"
        return series

    def _serve(self, settings: EngineSettings, clock: Clock | None, parts: dict[str, Any]) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._start(settings, clock, parts))
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(runner.cleanup())

    async def _start(self, settings: EngineSettings, clock: Clock | None, parts: dict[str, Any]) -> web.AppRunner:
        application = build_application(settings, clock, **parts)
        runner, self.url = await start_listening(application, "127.0.0.1", 0)
        self.serving = application[SERVING]
        self._ready.set()
        return runner


def _shortened(series: str) -> str:
    name, _, labels = series.partition("{")
    kept = [
        label
        for label in labels.removesuffix("}").split(",")
        if label and not label.startswith(("engine=", "model_name="))
    ]
    return name + ("{" + ",".join(kept) + "}" if kept else "")


@pytest.fixture
def engine_server() -> Iterator[Callable[..., EngineServer]]:
    """``engine_server(settings, clock=…)`` starts an engine; without a clock its time is virtual."""
    started: list[EngineServer] = []

    def start(settings: EngineSettings | None = None, clock: Clock | None = None, **parts: Any) -> EngineServer:
        server = EngineServer(settings or EngineSettings(), clock or VirtualClock(), **parts)
        started.append(server)
        return server

    yield start
    for server in started:
        server.close()
