"""A scripted world for the chaos frame: a stand-in engine, exporter and load generators on one fake clock.

Nothing waits: ``sleep`` moves the clock, and every full second the world makes the reading a scrape would bring
and the requests the loads would have sent. It answers over loopback HTTP, or directly where a test needs speed.

Longer than 300 lines because every answer depends on what the others did to the one world.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hitcurve.reading import CurveState, Interval, Reading, RequestWindowRate, WindowRate
from hitcurve_chaos.calls import Answer, NoAnswer
from hitcurve_chaos.observe import ExporterSource
from hitcurve_chaos.runner import Tools
from hitcurve_chaos.targets import Adapter, Target

QUERIES = 1000.0
_POST_ONLY = ("/reset_prefix_cache", "/flush_cache", "/v1/load_lora_adapter")
BASE_RATE = 0.8


@dataclass
class ScriptedWorld:
    """What the engine, the exporter and the loads do. Tests change the script's fields before or while it runs."""

    folder: Path
    now_s: float = 1_000_000.0
    # The script.
    traffic: bool = True
    steady: bool = True
    recovers: bool = True
    scrapes: bool = True
    engine_hangs_after_fault: bool = False
    requests_fail: bool = False
    late_s: float | None = 0.001
    of_others: int = 0
    """How many of the 1,000 tokens that are looked up each second are of requests that the run does not send."""
    load_start_s: float = 0.0
    """What a load that a fault starts needs to send its first request."""
    reset_answers: list[tuple[int, str]] = field(default_factory=lambda: [(200, '{"success":true}')])
    reset_clears: bool = True
    tells_cached_tokens: bool = True
    probe_cached_tokens: tuple[int | None, int | None] | None = None
    pressure_evicts: bool = True
    pressure_usage: float = 0.0
    adapters_share_cache: bool = False
    load_adapter_status: int = 200
    unload_adapter_status: int = 200
    unloaded_adapters_answer: bool = False
    reloaded_adapters_are_stale: bool = False
    interrupt: Callable[[str], None] = lambda step: None
    # What happened.
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[tuple[str, str]] = field(default_factory=list)
    adapters: set[str] = field(default_factory=set)
    running: dict[str, dict[str, Any]] = field(default_factory=dict)
    started: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    _cached: set[tuple[Any, ...]] = field(default_factory=set)
    _said: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _weights: dict[str, str] = field(default_factory=dict)
    _fault_ended_s: float = 0.0
    _reset_s: float | None = None
    _evicted: float = 0.0
    _total: tuple[float, float] = (0.0, 0.0)
    _resets: int = 0
    _ends_s: dict[str, float] = field(default_factory=dict)
    _sends_from_s: dict[str, float] = field(default_factory=dict)

    # The clock.
    def now(self) -> float:
        self.interrupt("now")
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.interrupt("sleep")
        self.sleeps.append(seconds)
        end_s = self.now_s + seconds
        while int(self.now_s) < int(end_s):
            self.now_s = float(int(self.now_s) + 1)
            self._second()
        self.now_s = end_s

    # The transport.
    def send(self, method: str, url: str, *, json_body=None, headers=None, timeout_s: float = 10.0) -> Answer:
        self.interrupt(f"send {method} {url}")
        path = "/" + url.split("/", 3)[3]
        status, body = self.answer(method, path, dict(json_body) if json_body is not None else None)
        if status is None:
            raise NoAnswer(f"{method} {url}: timed out")
        return Answer(status, body)

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int | None, str]:
        if method == "OPTIONS" and path.split("?")[0] in _POST_ONLY:
            return 405, '{"detail":"Method Not Allowed"}'
        self.calls.append((method, path, body))
        match path.split("?")[0]:
            case "/api/v1/engines":
                last = self.readings[-1:] if self.scrapes else []
                return 200, json.dumps({"engines": [asdict(reading) for reading in last]})
            case "/api/v1/marks":
                self.marks.append(body or {})
                return 200, "{}"
            case "/reset_prefix_cache" | "/flush_cache":
                return self._reset()
            case "/v1/completions":
                return self._complete(body or {})
            case "/v1/load_lora_adapter":
                return self._load_adapter((body or {})["lora_name"], (body or {})["lora_path"])
            case "/v1/unload_lora_adapter":
                return self._unload_adapter((body or {})["lora_name"])
            case "/v1/models":
                return 200, json.dumps({"data": [{"id": name} for name in ["m", *sorted(self.adapters)]]})
        return 404, '{"detail":"Not Found"}'

    # The loads.
    def start(self, name: str, settings: dict[str, Any]) -> "StandInLoad":
        self.interrupt(f"start {name}")
        self.running[name] = dict(settings)
        self.started.append((name, dict(settings)))
        self._ends_s[name] = self.now_s + settings["duration"]
        self._sends_from_s[name] = self.now_s + (0.0 if name == "background" else self.load_start_s)
        return StandInLoad(self, name)

    # Inside.
    @property
    def fault_lasts(self) -> bool:
        return any(name != "background" for name in self.running)

    def _reset(self) -> tuple[int, str]:
        status, body = self.reset_answers.pop(0) if len(self.reset_answers) > 1 else self.reset_answers[0]
        applied = status == 200 and "false" not in body
        if applied and self.reset_clears:
            self._cached.clear()
            self._said.clear()
            self._reset_s = self.now_s
        return status, body

    def _complete(self, body: dict[str, Any]) -> tuple[int | None, str]:
        if self.engine_hangs_after_fault and (self._reset_s or self._fault_ended_s):
            return None, ""
        weights = self._weights.get(body["model"], "")
        if body["model"] != "m" and body["model"] not in self.adapters and not self.unloaded_adapters_answer:
            return 404, '{"error":"no such model"}'
        prompt = body["prompt"] if isinstance(body["prompt"], str) else str(body["prompt"])
        key = ("any" if self.adapters_share_cache else body["model"], body.get("cache_salt"), prompt)
        key = key if self.reloaded_adapters_are_stale or self.adapters_share_cache else (*key, weights)
        self.prompts.append((body["model"], prompt))
        cached = 640 if key in self._cached else 0
        self._cached.add(key)
        if self.probe_cached_tokens is not None:
            reset = any(path.startswith(("/reset", "/flush")) for _, path, _ in self.calls)
            cached = self.probe_cached_tokens[1 if reset else 0]
        details = {"cached_tokens": cached} if self.tells_cached_tokens else None
        usage = {"prompt_tokens": 650, "completion_tokens": 1, "prompt_tokens_details": details}
        said = self._said.setdefault(key, f"x{weights}")
        return 200, json.dumps({"choices": [{"text": said}], "usage": usage})

    def _load_adapter(self, name: str, path: str) -> tuple[int, str]:
        if self.load_adapter_status != 200:
            return self.load_adapter_status, '{"detail":"Not Found"}'
        self.adapters.add(name)
        self._weights[name] = path
        return 200, "Success"

    def _unload_adapter(self, name: str) -> tuple[int, str]:
        if self.unload_adapter_status != 200:
            return self.unload_adapter_status, '{"error":"busy"}'
        if name not in self.adapters:
            return 404, "not found"
        self.adapters.remove(name)
        return 200, "Success"

    def _second(self) -> None:
        state, cause, rate = self._curve()
        if self.fault_lasts and self.pressure_evicts:
            self._evicted += 100
        queries = QUERIES if self.traffic else 0.0
        self._total = (self._total[0] + queries, self._total[1] + queries * rate)
        seen = rate if self.traffic else None
        self.readings.append(
            Reading(
                target="t",
                engine="0",
                at_s=self.now_s,
                up=True,
                interval=Interval(self.now_s - 1, self.now_s, queries, queries * rate, seen),
                windows=(WindowRate(5.0, queries, queries * rate, seen),),
                request_window=RequestWindowRate(1000, 1000.0, BASE_RATE, 100.0),
                cumulative_hit_rate=self._total[1] / self._total[0] if self._total[0] else None,
                query_tokens_total=self._total[0],
                hit_tokens_total=self._total[1],
                kv_usage=self.pressure_usage if self.fault_lasts else 0.1,
                preemptions_total=0.0,
                evicted_blocks_total=self._evicted,
                block_size=16,
                capacity_tokens=16_000,
                state=CurveState(state, cause, self.now_s),
            )
        )
        with (self.folder / "requests.jsonl").open("a") as file:
            for name in self.running if self.traffic else ():
                if self.now_s <= self._sends_from_s[name]:
                    continue
                file.write(json.dumps(self._request(name, rate)) + "\n")

    def _curve(self) -> tuple[Any, Any, float]:
        """State, cause and hit rate of the second that ends now."""
        if not self.traffic:
            return "no_traffic", None, 0.0
        if not self.steady:
            return "oscillating", "unknown", 0.5
        if any(name.startswith("pressure") for name in self.running):
            return "degraded", "pool_pressure", 0.4
        if self.adapters:
            return "degraded", "lora_churn", 0.5
        ended_s = max(self._reset_s or 0.0, self._fault_ended_s)
        since_s = self.now_s - ended_s
        if not ended_s or (since_s > 5 and self.recovers):
            return "steady", None, BASE_RATE
        return ("collapsed", "reset", 0.1) if since_s <= 1 else ("warming", None, 0.5)

    def _request(self, name: str, rate: float) -> dict[str, Any]:
        return {
            "at_s": self.now_s - 0.5,
            "load": name,
            "profile": "p",
            "group": "g",
            "model": "m",
            "status": 500 if self.requests_fail else 200,
            "outcome": "failed" if self.requests_fail else "ok",
            "reason": "HTTP 500" if self.requests_fail else None,
            "ttft_s": 0.02,
            "tpot_s": 0.01,
            "duration_s": 0.1,
            "prompt_tokens": 1000 - self.of_others,
            "completion_tokens": 4,
            "cached_tokens": int((1000 - self.of_others) * rate),
            "late_s": self.late_s,
        }


@dataclass
class StandInLoad:
    """A load generator that exists only in the script."""

    world: ScriptedWorld
    name: str

    def problem(self) -> str | None:
        lives = self.name in self.world.running and self.world.now_s < self.world._ends_s[self.name]
        return None if lives else f"the load '{self.name}' ended"

    def await_effect(self) -> None:
        if self.world.load_start_s:
            self.world.sleep(self.world.load_start_s)

    def stop(self) -> None:
        self.world.running.pop(self.name, None)
        if self.name != "background":
            self.world._fault_ended_s = self.world.now_s


@contextmanager
def serve(world: ScriptedWorld) -> Iterator[str]:
    """The world behind a real loopback server; yields its URL."""

    class StandIn(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, text = world.answer(self.command, self.path, body)
            data = text.encode()
            self.send_response(status or 503)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_OPTIONS = _answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tools_of(world: ScriptedWorld, transport: Any = None) -> Tools:
    """The frame's tools, all of the world: its clock, its loads, its exporter."""

    @contextmanager
    def source(target: Target, transport: Any) -> Iterator[Any]:
        yield ExporterSource(target, transport)

    return Tools(world, transport or world, lambda target, folder, seed: world, source)


def target_at(url: str, **changes: Any) -> Target:
    values: dict[str, Any] = {
        "name": "t",
        "engine": url,
        "model": "m",
        "exporter": url,
        "load": {"profile": "p", "rate": 5},
        "adapters": [Adapter("a", "/a"), Adapter("b", "/b")],
    }
    return Target(**(values | changes))
