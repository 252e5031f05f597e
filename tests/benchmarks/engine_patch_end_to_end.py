"""What the engine patch costs a whole vLLM: ``python tests/benchmarks/engine_patch_end_to_end.py``.

The tiny model of the demo on the CPU, where no time of a GPU hides anything: prompts of 512 tokens, 16 tokens out
(vLLM's own default; ``--output-tokens``), 8 requests at a time, blocks of 32 tokens in a pool of 192. Slices of
about 0.65 s with and without the patch alternate in one process. Per case one JSON line; ratios are without over
with, so that 0.99 is 1 % slower. Where three numbers are given they are the median over the pairs and its 95 %
interval. The default takes three minutes. A processor without AVX-512 takes ten times as long for the model's own
bfloat16, which hides the patch; ``--dtype float32`` is the harder test there.

- ``throughput_ratio``: requests per second of wall time; what else the machine does disturbs it.
- ``quiet_throughput_ratio``: the same between the first deciles of all slices, the least disturbed ones.
- ``engine_cpu_ratio``: CPU time of the engine's own thread (scheduler and model); steadier, but blind to its
  waiting for the interpreter's lock.
- ``process_cpu_ratio``: the same with the patch's threads in the engine's process added, as if all that they
  compute kept the engine waiting; ``quiet_process_cpu_ratio`` between first deciles.
- ``threads_us``: CPU time per request of these threads; ``threads_us_unpatched`` is what the measuring itself
  makes them do. ``replay_us``: of the process that replays and sends spans.

``--collector`` sends spans as well, one for every request: ``good`` takes them, ``dead`` does not listen, ``slow``
accepts and never answers, ``resetting`` resets every connection. ``--protocol`` is that of OTLP. The last line
says how long the end of the patch took and what became of every span; ``received`` is what the collector counted.
``--parts`` does something else: it switches one part after the other on, to see where the time goes; one line for
each, with all parts before it. ``--pairs`` are the rounds then, ``--steps`` the parts (default: all).
``--hooks`` does something else again: microseconds that the hooks add to what the scheduler does for a request,
call by call, which the model's own noise does not reach; ``noise_us`` is the same of a case without hooks.
Without ``.venv-vllm`` (``make vllm-env``) it prints why it measures nothing.
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("HITCURVE_VLLM_PYTHON", REPOSITORY / ".venv-vllm" / "bin" / "python"))
MODEL = PYTHON.parents[1] / "hitcurve-tiny-model" / "model"
WORKER = REPOSITORY / "tests" / "real_vllm" / "vllm_end_to_end.py"
PARTS_WORKER = WORKER.with_name("vllm_patch_parts.py")
HOOKS_WORKER = WORKER.with_name("vllm_hook_time.py")
STEPS = ("hooks", "queued", "read", "packed", "written", "stopped", "all")
LONGEST_S = 1800.0


class Good(BaseHTTPRequestHandler):
    """A collector that takes spans."""

    protocol_version = "HTTP/1.1"
    bodies: ClassVar[list[bytes]] = []
    """Read after the last slice: a collector shares no processor with the engine that it hears of."""

    def do_POST(self) -> None:
        Good.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    @classmethod
    def received(cls) -> int:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        messages = map(ExportTraceServiceRequest.FromString, cls.bodies)
        groups = (group for message in messages for group in message.resource_spans)
        return sum(len(scope.spans) for group in groups for scope in group.scope_spans)


def good() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Good)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def dead() -> str:
    """The address of a port that nobody listens at."""
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{gone.getsockname()[1]}"


def slow() -> str:
    return accepting(lambda connection: None)


def resetting() -> str:
    def reset(connection: socket.socket) -> None:
        # Lingering for 0 s makes closing a reset.
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    return accepting(reset)


def accepting(then: Callable[[socket.socket], None]) -> str:
    """A listener that accepts everybody, keeps the connection and does ``then``."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept = []

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            kept.append(connection)
            then(connection)

    threading.Thread(target=accept, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


COLLECTORS: dict[str, Callable[[], str]] = {"good": good, "dead": dead, "slow": slow, "resetting": resetting}


def run(options: argparse.Namespace) -> None:
    """One process of vLLM, its lines as they come."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HITCURVE_"))},
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "engine_patch"), str(REPOSITORY)]),
        "PYTHONWARNINGS": "ignore",
        "VLLM_PLUGINS": "",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if options.collector:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = COLLECTORS[options.collector]()
        environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = options.protocol
    worker = PARTS_WORKER if options.parts else HOOKS_WORKER if options.hooks else WORKER
    command = [str(PYTHON), str(worker), str(MODEL), "--pairs", str(options.pairs)]
    command += ["--output-tokens", str(options.output_tokens), "--shares", *map(str, options.shares)]
    command += ["--dtype", options.dtype]
    steps = ["--steps", *options.steps] if options.steps else []
    with subprocess.Popen(
        [*command, *steps],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        errors: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(target=errors.extend, args=(process.stderr,), daemon=True)
        reader.start()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    print(json.dumps(case_of(options, json.loads(line))), flush=True)
        except BaseException:
            process.kill()
            raise
        process.wait(LONGEST_S)
        reader.join(10)
    if process.returncode != 0:
        sys.exit(f"vLLM ended with code {process.returncode}: {''.join(errors[-3:]).strip()}")


def case_of(options: argparse.Namespace, result: dict[str, Any]) -> dict[str, Any]:
    case = {"collector": options.collector, "protocol": options.protocol} if options.collector else {}
    if options.collector == "good" and "spans_exported" in result:
        result["received"] = Good.received()
    return {**case, **result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.9], help="of the prompt that is cached")
    parser.add_argument("--output-tokens", type=int, default=16, help="of each request; 16 is vLLM's own default")
    parser.add_argument("--dtype", choices=("auto", "float32"), default="auto", help="that the model computes in")
    parser.add_argument("--collector", choices=COLLECTORS, help="send spans to one that is like this")
    parser.add_argument("--protocol", choices=("http/protobuf", "grpc"), default="http/protobuf")
    parser.add_argument("--parts", action="store_true", help="measure the parts of the patch one by one")
    parser.add_argument("--hooks", action="store_true", help="measure the hooks alone, in the scheduler's time")
    parser.add_argument("--steps", nargs="+", choices=STEPS, help="with --parts: only these")
    options = parser.parse_args()
    if options.hooks and (options.parts or options.collector):
        parser.error("--hooks goes with neither --parts nor --collector")
    if options.steps and not options.parts:
        parser.error("--steps goes with --parts")
    if options.collector == "good" and options.protocol == "grpc":
        parser.error("the good collector speaks http/protobuf only")
    if not (MODEL.parent / "finished").exists():
        print("nothing measured: there is no real vLLM with its tiny model (make vllm-env, make demo)")
        return
    run(options)


if __name__ == "__main__":
    main()
