"""Memory of a real vLLM engine core with the engine patch, under load with churn.

``python tests/benchmarks/engine_patch_memory.py --minutes 30``

Two servers of the demo's tiny model get the same requests: one with the patch (spans to a collector that takes
them, metrics, the curve over pool sizes), one without, which ends earlier. The load is made to grow whatever can
grow: prompts that never come again beside families that do, new salts, an adapter under a name never used before
(loaded, used, unloaded), clients that leave in mid-answer, long answers, resets by force. Every
five seconds the resident memory of the process ``VLLM::EngineCore`` is read, and of the patch's recording process.
One JSON line per server: the slope in MiB per minute by least squares after the warm-up, over all of it and over
its second half, which is the one to look at: what grows without bound still grows there. Without ``.venv-vllm``
(``make vllm-env``) nothing is measured. Longer than 300 lines because the load is made for this measurement alone.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE_S = 5.0
USERS = 3
POOL_BLOCKS = 256
FAMILIES = 40
SHOWN = (
    "active",
    "requests_total",
    "dropped_events_total",
    "errors_total",
    "evicted_blocks_total",
    "resets_total",
)


class Collector(BaseHTTPRequestHandler):
    """Takes every batch of spans and forgets it."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@dataclass
class Load:
    """Requests to one server, each kind at its turn, until ``ending``."""

    engine: RunningEngine
    pause_s: float
    ending: threading.Event
    sent: int = 0
    failed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """One user's requests."""
        while not self.ending.wait(self.pause_s):
            with self.lock:
                self.sent += 1
                number = self.sent
            try:
                self._turn(number)(number)
            except OSError as error:
                self.failed += 1
                if self.failed <= 3:
                    print(f"request {number}: {error}", file=sys.stderr)

    def _turn(self, number: int) -> Callable[[int], None]:
        turns = (
            (200, self._reset),
            (37, self._adapter),
            (23, self._leave),
            (17, self._long),
        )
        return next((turn for every, turn in turns if number % every == 0), self._plain)

    def _plain(self, number: int) -> None:
        more = {"cache_salt": f"salt-{number}"} if number % 5 == 0 else {}
        self._complete(prompt(number, 600), **more)

    def _long(self, number: int) -> None:
        self._complete(prompt(number, 200), max_tokens=200)

    def _adapter(self, number: int) -> None:
        paths = [path for _, path in self.engine.adapters]
        name = {"lora_name": f"adapter-{number}"}
        self._post("load_lora_adapter", {**name, "lora_path": paths[number % len(paths)]})
        for _ in range(2):
            self._complete(prompt(number, 300), model=name["lora_name"])
        self._post("unload_lora_adapter", name)

    def _leave(self, number: int) -> None:
        """A client that reads the first token of many and is gone."""
        with self._open("completions", self._body(prompt(number, 300), max_tokens=500, stream=True)) as answer:
            answer.readline()

    def _reset(self, number: int) -> None:
        request = urllib.request.Request(f"{self.engine.url}/reset_prefix_cache?reset_running_requests=true")
        request.method = "POST"
        urllib.request.urlopen(request, timeout=120).close()

    def _complete(self, text: str, **more: Any) -> None:
        self._post("completions", self._body(text, **more))

    def _body(self, text: str, **more: Any) -> dict[str, Any]:
        body = {"model": self.engine.model, "prompt": text, "max_tokens": 4, "temperature": 0, "ignore_eos": True}
        return body | more

    def _post(self, path: str, body: dict[str, Any]) -> None:
        with self._open(path, body) as answer:
            answer.read()

    def _open(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.engine.url}/v1/{path}", json.dumps(body).encode(), headers)
        return urllib.request.urlopen(request, timeout=120)


def prompt(number: int, length: int) -> str:
    """Half of it shared by a family, half its own; every third is nobody's."""
    dice = random.Random(number)
    own = "".join(dice.choices("abcdefghij ", k=length))
    return own if number % 3 == 0 else f"family {number % FAMILIES} ".ljust(length // 2, "x") + own[: length // 2]


def engine_core(group: int) -> int:
    """The engine core's process id, by its title, among the processes of a group."""
    for entry in Path("/proc").iterdir():
        try:
            ours = entry.name.isdigit() and os.getpgid(int(entry.name)) == group
            if ours and b"EngineCore" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    raise EnvironmentFailed(f"no VLLM::EngineCore among the processes of group {group}.")


def recording_process(core: int) -> int | None:
    """The process that the patch in the engine core has started, once it has."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"replay_main" in (entry / "cmdline").read_bytes():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == core:
                    return int(entry.name)
        except OSError:
            continue
    return None


def resident_mib(pid: int) -> float:
    """Resident memory now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return kib / 1024


def slope(samples: list[tuple[float, float]]) -> float:
    """MiB per minute."""
    times, sizes = zip(*samples, strict=True)
    return statistics.linear_regression([time / 60 for time in times], sizes).slope


def patch_counts(engine: RunningEngine) -> dict[str, float]:
    """What the patch says of itself."""
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=30) as answer:
        page = answer.read().decode().splitlines()
    found = {}
    for name in SHOWN:
        values = [line.rsplit(" ", 1)[1] for line in page if line.startswith(f"hitcurve_engine_{name}{{")]
        found[name] = sum(map(float, values))
    return found


def plugin_site(folder: Path) -> str:
    """A PYTHONPATH on which vLLM finds the plugin, as after an installation."""
    info = folder / "hitcurve-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hitcurve\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nhitcurve = hitcurve_engine.plugin:register\n")
    return os.pathsep.join([str(folder), str(REPOSITORY / "engine_patch"), str(REPOSITORY)])


def measure(
    name: str, folder: Path, variables: dict[str, str], options: argparse.Namespace, minutes: float
) -> str:
    """Start a server, load it, watch it; the result as a JSON line."""
    folder.mkdir()
    engine = start_vllm(
        folder / "vllm.log",
        block_size=32,
        pool_blocks=POOL_BLOCKS,
        seed=1,
        variables=variables,
        niceness=options.nice,
    )
    try:
        process = engine.process.process_id
        assert process is not None
        core = engine_core(process)
        ending = threading.Event()
        load = Load(engine, USERS / options.rate, ending)
        samples: list[tuple[float, float]] = []
        recording: list[tuple[float, float]] = []
        recorder = None
        with ThreadPoolExecutor(USERS) as pool:
            users = [pool.submit(load.run) for _ in range(USERS)]
            begun = monotonic()
            try:
                while monotonic() - begun < minutes * 60:
                    samples.append((monotonic() - begun, resident_mib(core)))
                    recorder = recorder or recording_process(core)
                    if recorder is not None:
                        recording.append((monotonic() - begun, resident_mib(recorder)))
                    if len(samples) % 24 == 0:
                        print(
                            f"{name}: {samples[-1][0] / 60:.0f} min, {samples[-1][1]:.1f} MiB, {load.sent} sent",
                            file=sys.stderr,
                        )
                    ending.wait(SAMPLE_S)
            finally:
                ending.set()
            for user in users:
                user.result()
        counts = patch_counts(engine)
    finally:
        engine.process.stop()
    result = {
        "server": name,
        "minutes": round(minutes, 1),
        "warm_up_minutes": options.warm_up,
        "requests": load.sent,
        "failed": load.failed,
        "requests_per_s": round(load.sent / (minutes * 60), 2),
        "engine_core": sizes(samples, options.warm_up * 60),
        **({"recording_process": sizes(recording, options.warm_up * 60)} if recording else {}),
        **({"patch": counts} if "PYTHONPATH" in variables else {}),
    }
    return json.dumps(result)


def sizes(samples: list[tuple[float, float]], warm_up_s: float) -> dict[str, float]:
    """Resident memory of one process over time."""
    settled = [sample for sample in samples if sample[0] >= warm_up_s]
    late = settled[len(settled) // 2 :]
    return {
        "first_mib": round(samples[0][1], 1),
        "after_warm_up_mib": round(settled[0][1], 1),
        "last_mib": round(samples[-1][1], 1),
        "slope_mib_per_min": round(slope(settled), 3),
        "second_half_slope_mib_per_min": round(slope(late), 3),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="of load on the server with the patch")
    parser.add_argument("--control-minutes", type=float, help="on the one without (default: half of it)")
    parser.add_argument("--warm-up", type=float, help="minutes left out of the slope (default: a fifth)")
    parser.add_argument("--rate", type=float, default=6.0, help="requests per second to each, at most")
    parser.add_argument("--folder", type=Path, help="keep the servers' logs here")
    parser.add_argument("--nice", type=int, default=0, help="niceness of the servers")
    options = parser.parse_args()
    options.control_minutes = options.control_minutes or options.minutes / 2
    options.warm_up = options.warm_up if options.warm_up is not None else options.minutes / 5
    return options


def main() -> None:
    options = arguments()
    if not (Path(os.environ.get("HITCURVE_VLLM_ENV", REPOSITORY / ".venv-vllm")) / "bin" / "python").exists():
        print("nothing measured: there is no real vLLM (make vllm-env)")
        return
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    collector.daemon_threads = True
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as pool:
        scratch = options.folder or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        patched = {
            "PYTHONPATH": plugin_site(scratch / "site"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "HITCURVE_POOL_CURVE": "on",
            "VLLM_CPU_OMP_THREADS_BIND": "0",
        }
        plain = {"VLLM_PLUGINS": "", "VLLM_CPU_OMP_THREADS_BIND": "1"}
        results = [
            pool.submit(measure, "with the patch", scratch / "with", patched, options, options.minutes),
            pool.submit(measure, "without", scratch / "without", plain, options, options.control_minutes),
        ]
        for result in results:
            print(result.result(), flush=True)


if __name__ == "__main__":
    try:
        main()
    except EnvironmentFailed as error:
        sys.exit(str(error))
