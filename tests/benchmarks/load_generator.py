"""Benchmark of the load generator: ``python tests/benchmarks/load_generator.py throughput|ttft``.

``throughput`` compares requests per second, and CPU time per request, of a plain Locust ``FastHttpUser``, which
reads each body whole, with ``hitcurve load`` with full measurement and all requests written, against the same
server and the same answers.
``ttft`` compares the TTFT that ``hitcurve load`` reports with the server's own log of when it received the request
and sent the first token, in slices; those in which another process held the processor are shown but not judged.
Server and client run in processes of their own; results of the last run are in docs/benchmarks.md.

Longer than 300 lines because the scripted server and both measurements belong together.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitcurve_loadtests.percentiles import describe
from hitcurve_loadtests.prompts import IDENTITY_BYTES, make_text

SEED = 1
FIRST_S = 0.05
BUDGET_S = 0.002
MOST_WAITED = 0.02
TOKENS = 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = json.dumps({"data": [{"id": "tiny"}]}).encode()


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(**values: Any) -> bytes:
    return framed(b"data: " + json.dumps(values).encode() + b"\n\n")


def token(finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": "word ", "logprobs": None, "finish_reason": finish}
    return event(id="cmpl-1", object="text_completion", created=1, model="tiny", choices=[choice])


def ending(tokens: int) -> bytes:
    usage = {
        "prompt_tokens": 576,
        "completion_tokens": tokens,
        "prompt_tokens_details": {"cached_tokens": 512},
    }
    return event(id="cmpl-1", choices=[], usage=usage) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Server(asyncio.Protocol):
    """Answers each POST with ``tokens`` events, at once or after ``first_s`` and then every ``gap_s``."""

    tokens = 16
    first_s = 0.0
    gap_s = 0.0
    apart = False
    """Write every event by itself, as an engine does."""
    seen: list[tuple[str, float, float]]
    waited_before_s: float | None = None
    """How long this process had waited for a processor when the first request came."""

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        if head.startswith(b"GET"):
            self._data = rest
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(MODELS) + MODELS)
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self._data = rest[length:]
        if self.gap_s or self.apart:
            asyncio.get_running_loop().create_task(self._stream(rest[:length], time.perf_counter()))
        else:
            body = token() * (self.tokens - 1) + token("length") + ending(self.tokens)
            self._transport.write(HEAD + body)

    async def _stream(self, body: bytes, received_s: float) -> None:
        name = json.loads(body)["prompt"][:IDENTITY_BYTES]
        if Server.waited_before_s is None:
            Server.waited_before_s = waited_s()
        self._transport.write(HEAD)
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self.first_s
        for number in range(self.tokens):
            await asyncio.sleep(max(due_s - loop.time(), 0))
            if self._transport.is_closing():
                return
            if number == 0 and self.gap_s:
                self.seen.append((name, received_s, time.perf_counter()))
            self._transport.write(token("length" if number == self.tokens - 1 else None))
            due_s += self.gap_s
        self._transport.write(ending(self.tokens))


async def serve(tokens: int, first_s: float, gap_s: float, apart: bool, log: Path | None) -> None:
    Server.tokens, Server.first_s, Server.gap_s, Server.apart, Server.seen = tokens, first_s, gap_s, apart, []
    if log:
        go_first()
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    if log:
        waited = waited_s() - (Server.waited_before_s or 0.0)
        log.write_text(json.dumps({"requests": Server.seen, "waited_s": waited}))


def plain(url: str, users: int, seconds: float) -> None:
    """The comparison: Locust's FastHttpUser posting the same size of body and reading the answer whole."""
    import gevent
    from locust import FastHttpUser, task
    from locust.env import Environment

    prompt = make_text(576, SEED, "plain")
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 16, "stream": True}).encode()

    class Plain(FastHttpUser):  # type: ignore[misc]
        @task  # type: ignore[untyped-decorator]
        def post(self) -> None:
            self.client.post("/v1/completions", data=body, headers={"Content-Type": "application/json"})

    environment = Environment(user_classes=[Plain], host=url)
    runner = environment.create_local_runner()
    runner.start(users, spawn_rate=users)
    began_s = time.process_time()
    gevent.sleep(seconds)
    stats = environment.stats.total
    good = stats.num_requests - stats.num_failures
    print(json.dumps({"requests_per_s": good / seconds, "cpu_us": 1e6 * (time.process_time() - began_s) / good}))
    runner.quit()


def ours(url: str, users: int, seconds: float) -> None:
    """What ``hitcurve load --out`` does from its first request to its last, without its start and its report."""
    from hitcurve_loadtests.load_run import LoadRun, soon
    from hitcurve_loadtests.plan import LoadOptions, plan_load
    from hitcurve_loadtests.records import RequestLog

    options = LoadOptions(host=url, profile="shared-system-prompt", users=users, duration=seconds, seed=SEED)
    with tempfile.TemporaryDirectory() as folder:
        log = RequestLog(Path(folder) / "requests.jsonl", soon)
        run = LoadRun(plan_load(options), log.append)
        run.prepare()
        began_s = time.process_time()
        run.run(lambda: None)
        cpu_s = time.process_time() - began_s
        log.close()
    assert not run.totals.failed, run.totals.failures
    print(json.dumps({"requests_per_s": run.totals.ok / run.elapsed_s, "cpu_us": 1e6 * cpu_s / run.totals.ok}))


class RunningServer:
    def __init__(self, *words: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "serve", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()

    def stop(self) -> None:
        self._process.communicate()


def throughput(tokens: int, apart: bool, users: int, seconds: float, rounds: int) -> None:
    server = RunningServer("--tokens", tokens, *(["--apart"] if apart else []))
    found: dict[str, list[dict[str, float]]] = {"plain": [], "ours": []}
    for number in range(rounds):
        for part in ("plain", "ours") if number % 2 else ("ours", "plain"):
            command = [sys.executable, __file__, part, server.url, str(users), str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[part].append(json.loads(done.stdout))
    server.stop()
    how = "in a write each" if apart else "in one write"
    print(f"{tokens} tokens {how}, {users} users, {rounds} rounds of {seconds:g} s")
    for part, title in (("plain", "plain FastHttpUser"), ("ours", "hitcurve load")):
        rate, cpu = (statistics.median(one[key] for one in found[part]) for key in ("requests_per_s", "cpu_us"))
        print(f"  {title:18s} {rate:.0f} requests/s, {cpu:.0f} us of CPU a request")
    # What a process can send at most is the inverse of the CPU time it needs; other work disturbs that less.
    for key, title in (("requests_per_s", "requests/s"), ("cpu_us", "1 / CPU time")):
        pairs = zip(found["plain"], found["ours"], strict=True)
        ratios = [one[key] / other[key] if key == "cpu_us" else other[key] / one[key] for one, other in pairs]
        print(
            f"  ratio of {title} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


@dataclass(frozen=True)
class Slice:
    """Some seconds of streams; times in seconds."""

    true: list[float]
    """TTFTs by the server's own log."""
    measured: list[float]
    hub_lag: float
    """99th percentile of how much too late the generator's event loop woke up."""
    first: bool
    """Whether they ran with real-time priority."""
    waited: tuple[float, float]
    """Shares of the time in which generator and server could have run and were kept from a processor."""

    @property
    def crowded(self) -> bool:
        return max(self.waited) > MOST_WAITED


def streams_once(url: str, rate: float, seconds: float, folder: Path) -> None:
    """What ``hitcurve load unique`` does, and how long this process waited for a processor meanwhile."""
    from hitcurve_loadtests.load_run import LoadRun, soon
    from hitcurve_loadtests.plan import LoadOptions, plan_load
    from hitcurve_loadtests.records import RequestLog

    log = RequestLog(folder / "requests.jsonl", soon)
    run = LoadRun(
        plan_load(LoadOptions(host=url, profile="unique", rate=rate, duration=seconds, seed=SEED)), log.append
    )
    run.prepare()
    first = go_first()
    before_s = waited_s()
    run.run(lambda: None)
    after_s = waited_s()
    log.close()
    assert not run.totals.failed, run.totals.failures
    lag = run.totals.results(run.elapsed_s)["lag_s"]["hub"]["p99"]
    print(json.dumps({"hub_lag": lag, "waited": (after_s - before_s) / run.elapsed_s, "first": first}))


def go_first() -> bool:
    """Run before all ordinary processes, where that is allowed; they then disturb the measurement less."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    return True


def waited_s() -> float:
    """How long this process has waited for a processor, by Linux's count."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def one_slice(streams: int, gap_ms: float, seconds: float) -> Slice:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.json"
        server = RunningServer("--tokens", TOKENS, "--first-ms", 1e3 * FIRST_S, "--gap-ms", gap_ms, "--log", log)
        # Arrivals at random times, since 50 closed-loop users would all expect their tokens at the same instant.
        rate = streams / (FIRST_S + (TOKENS - 1) * gap_ms / 1e3)
        command = [sys.executable, __file__, "streams", server.url, str(rate), str(seconds), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        server.stop()
        seen = json.loads(log.read_text())
        lines = [json.loads(line) for line in (Path(folder) / "requests.jsonl").read_text().splitlines()]
    true = {name: sent - received for name, received, sent in seen["requests"]}
    names = [
        make_text(IDENTITY_BYTES, SEED, "unique", int(line["group"].removeprefix("unique-"))) for line in lines
    ]
    ours = json.loads(done.stdout)
    return Slice(
        true=[true[name] for name in names],
        measured=[line["ttft_s"] for line in lines],
        hub_lag=ours["hub_lag"],
        first=ours["first"],
        waited=(ours["waited"], seen["waited_s"] / seconds),
    )


def ttft(streams: int, gap_ms: float, seconds: float, slices: int) -> None:
    """Slices in which either process was kept from a processor are shown and not judged."""
    print(f"{streams} streams on average, a token every {gap_ms:g} ms each, {slices} slices of {seconds:g} s")
    found = []
    for _ in range(slices):
        found.append(one_slice(streams, gap_ms, seconds))
        print(f"  {row_of([found[-1]])}{', crowded' if found[-1].crowded else ''}", flush=True)
    quiet = [one for one in found if not one.crowded]
    if not quiet:
        sys.exit(
            "invalid: in every slice something kept a process from the processor; try again on a quiet machine"
        )
    p50, p99 = differences(quiet)
    within = max(abs(p50), abs(p99)) <= BUDGET_S
    priority = "real-time" if all(one.first for one in found) else "ordinary"
    print(f"{len(quiet)} of {slices} slices judged, {priority} priority: {row_of(quiet)}")
    print(f"budget {1e3 * BUDGET_S:g} ms at p50 and p99: {'met' if within else 'missed'}")
    if not within:
        sys.exit(1)


def differences(slices: Sequence[Slice]) -> tuple[float, float]:
    """How much longer the measured TTFT is than the true one, at p50 and at p99."""
    true, measured = (
        describe([value for one in slices for value in getattr(one, kind)]) for kind in ("true", "measured")
    )
    assert None not in (true.p50, true.p99, measured.p50, measured.p99)
    return measured.p50 - true.p50, measured.p99 - true.p99  # type: ignore[operator]


def row_of(slices: Sequence[Slice]) -> str:
    true, measured = ([value for one in slices for value in getattr(one, kind)] for kind in ("true", "measured"))
    pairs = describe([seen - real for real, seen in zip(true, measured, strict=True)])
    parts = []
    for name in ("p50", "p99"):
        real, seen, off = (1e3 * (getattr(it, name) or 0) for it in (describe(true), describe(measured), pairs))
        parts.append(
            f"{name} {real:.2f} ms, measured {seen:.2f} ({seen - real:+.2f}; request by request {off:+.2f})"
        )
    lag, ours, server = max(it.hub_lag for it in slices), *(max(it.waited[n] for it in slices) for n in (0, 1))
    waited = f"waited for a processor: generator {ours:.1%}, server {server:.1%}"
    return f"{len(true)} requests, {'; '.join(parts)}; hub lag p99 {1e3 * lag:.2f} ms; {waited}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part")
    part = parts.add_parser("throughput")
    part.add_argument("--users", type=int, default=20)
    part.add_argument("--seconds", type=float, default=4)
    part.add_argument("--rounds", type=int, default=5)
    part = parts.add_parser("ttft")
    part.add_argument("--streams", type=int, default=50)
    part.add_argument("--gap-ms", type=float, default=20)
    part.add_argument("--seconds", type=float, default=8)
    part.add_argument("--slices", type=int, default=6)
    part = parts.add_parser("serve")
    part.add_argument("--tokens", type=int, default=16)
    part.add_argument("--first-ms", type=float, default=0)
    part.add_argument("--gap-ms", type=float, default=0)
    part.add_argument("--apart", action="store_true")
    part.add_argument("--log", type=Path)
    for name in ("plain", "ours"):
        part = parts.add_parser(name)
        part.add_argument("url")
        part.add_argument("users", type=int)
        part.add_argument("seconds", type=float)
    part = parts.add_parser("streams")
    for name, kind in (("url", str), ("rate", float), ("seconds", float), ("folder", Path)):
        part.add_argument(name, type=kind)
    options = parser.parse_args(sys.argv[1:] or ["throughput"])
    if options.part == "throughput":
        for tokens, apart in ((1, False), (16, True), (16, False)):
            throughput(tokens, apart, options.users, options.seconds, options.rounds)
    elif options.part == "ttft":
        ttft(options.streams, options.gap_ms, options.seconds, options.slices)
    elif options.part == "streams":
        streams_once(options.url, options.rate, options.seconds, options.folder)
    elif options.part == "serve":
        asyncio.run(
            serve(options.tokens, options.first_ms / 1e3, options.gap_ms / 1e3, options.apart, options.log)
        )
    else:
        {"plain": plain, "ours": ours}[options.part](options.url, options.users, options.seconds)


if __name__ == "__main__":
    main()
