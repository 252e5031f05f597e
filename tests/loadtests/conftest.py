"""A loopback engine whose streams follow a script, and a way to run ``hitcurve load`` as people do."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Answer:
    """What the engine does with one request: pauses (seconds) and pieces of the body, in turn."""

    pieces: Sequence[tuple[float, bytes]]
    status: int = 200
    content_type: str = "text/event-stream"
    cut: bool = False
    """Close the connection without the end of the chunked body."""


@dataclass
class Exchange:
    """One request as the engine saw it; times of ``time.perf_counter``, which all processes of Linux share."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    received_s: float
    sent_s: list[float] = field(default_factory=list)


def event(values: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def stream(
    words: Sequence[str],
    *,
    chat: bool = False,
    first_s: float = 0.0,
    gap_s: float = 0.0,
    prompt_tokens: int = 100,
    cached_tokens: int | None = 0,
) -> Answer:
    """A good answer: one event a word, then usage and the end."""
    pieces: list[tuple[float, bytes]] = []
    for number, word in enumerate(words):
        delta = {"delta": {"content": word}} if chat else {"text": word}
        finish = "length" if number == len(words) - 1 else None
        values = {"choices": [{"index": 0, "finish_reason": finish, **delta}]}
        pieces.append((gap_s if number else first_s, event(values)))
    details = None if cached_tokens is None else {"cached_tokens": cached_tokens}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(words), "prompt_tokens_details": details}
    pieces.append((0.0, event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"))
    return Answer(pieces)


class ScriptedEngine:
    """An OpenAI-compatible server on loopback; ``answer`` decides what each exchange gets."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.answer: Callable[[Exchange], Answer] = lambda exchange: stream(
            ["a", "b"], chat="chat" in exchange.path
        )
        self.models: list[str] = ["tiny"]
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                body = json.dumps({"data": [{"id": name} for name in engine.models]}).encode()
                found = self.path == "/v1/models"
                self.send_response(200 if found else 404)
                self.send_header("Content-Length", str(len(body) if found else 0))
                self.end_headers()
                if found:
                    self.wfile.write(body)

            def do_POST(self) -> None:
                received_s = time.perf_counter()
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/tokenize"):
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                exchange = Exchange(self.path, body, dict(self.headers), received_s)
                engine.exchanges.append(exchange)
                self.play(engine.answer(exchange), exchange)

            def play(self, answer: Answer, exchange: Exchange) -> None:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for pause_s, piece in answer.pieces:
                    time.sleep(pause_s)
                    exchange.sent_s.append(time.perf_counter())
                    try:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    except OSError:
                        self.close_connection = True
                        return
                if answer.cut:
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    """A scripted engine; ``engine.answer`` may be replaced."""
    server = ScriptedEngine()
    yield server
    server.close()


@pytest.fixture
def answers() -> Callable[..., Answer]:
    """Makes an answer from pieces."""
    return Answer


@pytest.fixture
def good_stream() -> Callable[..., Answer]:
    """Makes a good answer from words."""
    return stream


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.out)
        return values


@pytest.fixture
def load() -> Callable[..., Ended]:
    """Runs ``hitcurve load`` with these words and waits for its end; a slow machine is no reason to fail."""

    def run(*words: object) -> Ended:
        words = words if "--max-lag" in words or words[0] in ("compare", "overhead") else (*words, "--max-lag", 60)
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-m", "hitcurve", "load", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "COLUMNS": "140"},
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def start_load() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``hitcurve load`` with these words and leaves it running."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "hitcurve", "load", *map(str, words), "--max-lag", "60"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def read_lines() -> Callable[[Path], list[dict[str, Any]]]:
    """The lines of a JSONL file."""
    return lambda path: [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def exporter_page() -> Iterator[str]:
    """An exporter whose counters rise by 400 query and 100 hit tokens from its first page to the later ones."""
    seen = 0

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal seen
            labels = '{target="t",engine="0"}'
            lines = [
                f"hitcurve_query_tokens_total{labels} {1000 + 400 * min(seen, 1)}",
                f"hitcurve_hit_tokens_total{labels} {500 + 100 * min(seen, 1)}",
                f'hitcurve_last_success_timestamp_seconds{{target="t"}} {time.time() + 1}',
            ]
            seen += 1
            body = "".join(f"{line}\n" for line in lines).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()
