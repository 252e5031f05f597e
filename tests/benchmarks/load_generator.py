"""Benchmark of the load generator: ``python tests/benchmarks/load_generator.py throughput|ttft``.

``throughput`` compares requests per second, and CPU time per request, of a plain Locust ``FastHttpUser``, which
reads each body whole, with ``hitcurve load`` with full measurement and all requests written, against the same
server and the same answers.
``ttft`` compares the TTFT that ``hitcurve load`` reports with the server's own log of when it received the request
and sent the first token. Server and client run in processes of their own; results of the last run are in
docs/benchmarks.md.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hitcurve_loadtests.percentiles import describe
from hitcurve_loadtests.prompts import IDENTITY_BYTES, make_text

SEED = 1
FIRST_S = 0.05
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
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    if log:
        log.write_text(json.dumps(Server.seen))


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


def hitcurve_load(url: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "hitcurve", "load", "--host", url, "--json", "--seed", str(SEED)]
    ended = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, check=False)
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


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


def ttft(streams: int, gap_ms: float, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.json"
        server = RunningServer("--tokens", TOKENS, "--first-ms", 1e3 * FIRST_S, "--gap-ms", gap_ms, "--log", log)
        # Arrivals at random times, since 50 closed-loop users would all expect their tokens at the same instant.
        rate = streams / (FIRST_S + (TOKENS - 1) * gap_ms / 1e3)
        summary = hitcurve_load(
            *(server.url, "unique", "--rate", rate, "--duration", seconds, "--out", folder, "--max-lag", 10),
        )
        server.stop()
        true = {name: sent - received for name, received, sent in json.loads(log.read_text())}
        lines = [json.loads(line) for line in (Path(folder) / "requests.jsonl").read_text().splitlines()]
    errors = []
    for line in lines:
        number = int(line["group"].removeprefix("unique-"))
        errors.append(line["ttft_s"] - true[make_text(IDENTITY_BYTES, SEED, "unique", number)])
    error, measured, real = describe(errors), describe([line["ttft_s"] for line in lines]), describe(true.values())
    hub = summary["lag_s"]["hub"]
    print(
        f"{streams} streams on average, a token every {gap_ms:g} ms each, {len(lines)} requests in {seconds:g} s"
    )
    for title, it in (("server's TTFT", real), ("measured TTFT", measured), ("difference", error)):
        assert it.p50 is not None
        assert it.p99 is not None
        assert it.max is not None
        print(f"  {title}: p50 {1e3 * it.p50:.2f} ms, p99 {1e3 * it.p99:.2f} ms, max {1e3 * it.max:.2f} ms")
    print(f"  hub lag: p99 {1e3 * hub['p99']:.2f} ms, max {1e3 * hub['max']:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("throughput")
    part.add_argument("--users", type=int, default=20)
    part.add_argument("--seconds", type=float, default=4)
    part.add_argument("--rounds", type=int, default=5)
    part = parts.add_parser("ttft")
    part.add_argument("--streams", type=int, default=50)
    part.add_argument("--gap-ms", type=float, default=20)
    part.add_argument("--seconds", type=float, default=15)
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
    options = parser.parse_args()
    if options.part == "throughput":
        for tokens, apart in ((1, False), (16, True), (16, False)):
            throughput(tokens, apart, options.users, options.seconds, options.rounds)
    elif options.part == "ttft":
        ttft(options.streams, options.gap_ms, options.seconds)
    elif options.part == "serve":
        asyncio.run(
            serve(options.tokens, options.first_ms / 1e3, options.gap_ms / 1e3, options.apart, options.log)
        )
    else:
        {"plain": plain, "ours": ours}[options.part](options.url, options.users, options.seconds)


if __name__ == "__main__":
    main()
