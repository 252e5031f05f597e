"""The exporter beside a real vLLM: its KV events counted as the engine counts, reset and restart named at once."""

import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hitcurve.child import ChildProcess
from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

pytestmark = pytest.mark.real_vllm

DEADLINE_S = 120.0
INTERVAL_S = 1.0
BLOCK = 32
POOL_BLOCKS = 1200
PREFIXES = 140
"""They fit into the pool. In turn, so that after a reset as many requests find nothing."""


@pytest.fixture
def sockets() -> Iterator[tuple[str, str]]:
    """Addresses of a publisher and its replay that only this machine reaches; their paths must be short."""
    with TemporaryDirectory(prefix="hc") as folder:
        yield f"ipc://{folder}/events", f"ipc://{folder}/replay"


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """The value of a condition once it holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} never held"
        time.sleep(0.1)
    return value


@dataclass
class Exporter:
    """``hitcurve exporter`` as a process of its own."""

    url: str

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def samples(self) -> dict[str, float]:
        lines = [line.rpartition(" ") for line in self.get("/metrics").splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def kv(self, name: str, tier: str = "") -> float | None:
        own = f',tier="{tier}"' if tier else ""
        return self.samples().get(f'hitcurve_kv_events_{name}{{target="a",engine="0"{own}}}')

    def cache(self) -> tuple[float | None, ...]:
        """Live blocks, their copies as blocks and as hashes, and evictions."""
        names = ("live_blocks", "duplicate_blocks", "duplicate_hashes", "removed_blocks_total")
        return tuple(self.kv(name, "device") for name in names)

    def curve(self) -> Any:
        return json.loads(self.get("/api/v1/engines/a/curve?window=1h"))


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Callable[..., Exporter]]:
    """Starts one for an engine's address and its publisher."""
    running: list[ChildProcess] = []

    def start(url: str, endpoint: str, replay_endpoint: str | None) -> Exporter:
        replay = f", replay_endpoint: '{replay_endpoint}'" if replay_endpoint else ""
        config = tmp_path / "exporter.yaml"
        config.write_text(
            f"listen: 127.0.0.1:0\ninterval: {INTERVAL_S:g}s\nwindows: [10s]\ntargets:\n"
            f"  - {{url: '{url}', name: a, kv_events: {{endpoint: '{endpoint}'{replay}}}}}\n"
        )
        command = [sys.executable, "-m", "hitcurve", "exporter", "--config", str(config)]
        running.append(ChildProcess("the exporter", command, tmp_path / "exporter.log"))
        return Exporter(running[-1].start().wait_listening(30))

    yield start
    for process in running:
        process.stop()


def test_events_of_the_real_publisher_count_what_its_manager_holds(
    vllm_python: Path, exporter: Callable[..., Exporter], sockets: tuple[str, str]
) -> None:
    program = Path(__file__).with_name("vllm_kv_event_publisher.py")
    command = [str(vllm_python), str(program), *sockets, "20261130"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None

        def do(work: str) -> dict[str, int]:
            print(work, file=engine.stdin, flush=True)
            answer: dict[str, int] = json.loads(engine.stdout.readline())  # type: ignore[union-attr]
            return answer

        while (line := engine.stdout.readline()) != "ready\n":
            assert line, "the publisher ended"
        # What happened before anybody listened is known by a replay, and not counted.
        before = do("steps 100")
        watching = exporter("http://127.0.0.1:9", *sockets)
        names = ("live", "duplicate_blocks", "duplicate_hashes")
        wait_until(lambda: watching.kv("complete") == 1, "the whole history")
        expected = [before[name] for name in names]
        assert list(watching.cache()) == [*expected, 0]
        after = do("steps 400")
        batches = after["batches"] - before["batches"]
        wait_until(lambda: watching.kv("batches_total") == batches, "every batch")
        assert after["duplicate_hashes"] > 0
        evicted = after["evicted"] - before["evicted"]
        assert evicted > 1000
        assert list(watching.cache()) == [*(after[name] for name in names), evicted]
        assert do("reset")["live"] == 0
        wait_until(lambda: watching.kv("clears_total") == 1, "the reset")
        assert list(watching.cache()) == [0, 0, 0, evicted]
        assert (watching.kv("unmatched_removals_total"), watching.kv("gaps_total")) == (0, 0)
        engine.stdin.close()


@dataclass
class Load:
    """Threads that send requests of shared prefixes until told to stop, whatever the engine does."""

    engine: RunningEngine
    sent: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Load":
        self.threads = [threading.Thread(target=self._send, args=(seed,)) for seed in range(3)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def _send(self, seed: int) -> None:
        dice = random.Random(seed)
        while not self.stopped.is_set():
            with self.turn:
                prefix = self.sent % PREFIXES
                self.sent += 1
            shared = random.Random(prefix).choices(range(10, 200), k=8 * BLOCK)
            try:
                complete(self.engine, shared + dice.choices(range(10, 200), k=dice.randrange(4, BLOCK - 2)))
            except OSError:
                self.stopped.wait(0.2)


def complete(engine: RunningEngine, prompt: list[int]) -> None:
    body = {"model": engine.model, "prompt": prompt, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(
        f"{engine.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def of_the_plugin(engine: RunningEngine, name: str) -> float:
    """The sum of a metric of the engine patch, which counts inside the engine."""
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith((f"hitcurve_engine_{name}{{", f"hitcurve_engine_{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def scrapes_until(curve: Any, since_s: float, cause: str) -> tuple[str, int] | None:
    """The first state after a moment that names the cause, and the how-manyth good scrape told it."""
    for change in curve["states"]:
        if change["at_s"] >= since_s and change["cause"] == cause:
            # The first good scrape after a restart or a cut has no interval before it in the points.
            scrapes = {point["to_s"] for point in curve["points"]} | {one["at_s"] for one in curve["states"]}
            return change["state"], len([at_s for at_s in scrapes if since_s <= at_s <= change["at_s"]])
    return None


def same_counts(engine: RunningEngine, watching: Exporter) -> bool:
    """Whether events and engine agree; the plugin's own thread may be a moment behind."""
    names = ("cached_blocks", "duplicate_blocks", "evicted_blocks_total", "stored_blocks_total")
    theirs = [of_the_plugin(engine, name) for name in names]
    live, duplicates, _, removed = watching.cache()
    return [live, duplicates, removed, watching.kv("stored_blocks_total", "device")] == theirs


def test_reset_and_restart_under_load_are_named_and_events_agree_with_the_engine(
    exporter: Callable[..., Exporter],
    sockets: tuple[str, str],
    tmp_path: Path,
    repository: Path,
) -> None:
    site = tmp_path / "site" / "hitcurve-0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: hitcurve\nVersion: 0\n")
    (site / "entry_points.txt").write_text("[vllm.general_plugins]\nhitcurve = hitcurve_engine.plugin:register\n")
    path = os.pathsep.join(map(str, (site.parent, repository / "engine_patch", repository)))
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": sockets[0],
        "replay_endpoint": sockets[1],
    }

    def start(port: int = 0) -> RunningEngine:
        return start_vllm(
            tmp_path / f"vllm-{port}.log",
            block_size=BLOCK,
            pool_blocks=POOL_BLOCKS,
            seed=1,
            options=("--kv-events-config", json.dumps(events)),
            variables={"PYTHONPATH": path},
            port=port,
        )

    engine = start()
    try:
        watching = exporter(engine.url, *sockets)
        # What is stored before somebody listens is known by a replay, but not counted.
        wait_until(lambda: watching.kv("complete") == 1, "the empty history")
        # Pressure: more blocks than the pool has.
        dice = random.Random(7)
        for _ in range(POOL_BLOCKS // 20):
            complete(engine, [dice.randrange(10, 200) for _ in range(32 * BLOCK)])
        wait_until(lambda: same_counts(engine, watching), "the same counts after pressure")
        assert of_the_plugin(engine, "evicted_blocks_total") > 300
        with Load(engine) as load:
            wait_until(lambda: watching.curve()["state"]["state"] == "steady", "a steady curve")
            began_s = time.time()
            reset = f"{engine.url}/reset_prefix_cache?reset_running_requests=true"
            with urllib.request.urlopen(urllib.request.Request(reset, b"", method="POST"), timeout=60) as answer:
                assert json.load(answer) == {"success": True}
            state, scrapes = wait_until(lambda: scrapes_until(watching.curve(), began_s, "reset"), "a named reset")
            # A quick engine has its prefixes back before a scrape can lie far below the level (docs/curve.md).
            assert state in ("collapsed", "warming")
            assert scrapes <= 2
            wait_until(lambda: watching.curve()["state"]["state"] == "steady", "a steady curve again")
        # The events tell it at once, the plugin's counter perhaps a scrape later.
        assert [cut["kind"] for cut in watching.curve()["cuts"]] == ["start", "reset"]
        wait_until(lambda: same_counts(engine, watching), "the same counts after the reset")
        assert of_the_plugin(engine, "resets_total") == watching.kv("clears_total") == 1
        with Load(engine) as load:
            wait_until(lambda: load.sent > 20, "load")
            began_s = time.time()
            engine.process.stop()
            wait_until(lambda: watching.samples()['hitcurve_up{target="a"}'] == 0, "a failed scrape")
            wait_until(lambda: watching.kv("connected") == 0, "the lost publisher")
            wait_until(lambda: watching.cache()[:3] == (None, None, None), "no counts")
            engine = start(int(engine.url.rpartition(":")[2]))
            load.engine = engine
            state, scrapes = wait_until(
                lambda: scrapes_until(watching.curve(), began_s, "restart"), "a named restart"
            )
            assert state == "cold"
            assert scrapes <= 2
            assert watching.get("/-/healthy") == "hitcurve exporter is healthy.\n"
        assert [cut["kind"] for cut in watching.curve()["cuts"]] == ["start", "reset", "restart"]
        wait_until(lambda: watching.kv("publisher_restarts_total") == 1, "the new publisher")
        wait_until(lambda: watching.kv("complete") == 1, "the history of the new process")
        names = ("cached_blocks", "duplicate_blocks")
        wait_until(
            lambda: list(watching.cache()[:2]) == [of_the_plugin(engine, name) for name in names], "the same"
        )
    finally:
        engine.process.stop()
