"""Benchmark of the estimator: ``python tests/benchmarks/estimator.py [--no-peers]``.

Runs ``hitcurve estimate`` on the Mooncake conversation trace (12,031 requests, 145 M tokens) as a process, all
pool sizes, and in turn with it kvcache-simulator, llmtrafficlens, kvlint and libcachesim from the package index,
each in a virtual environment of its own under ``.cache/hitcurve/benchmarks``; one that cannot be installed is
skipped with a message. Prints times, peak memory and the answers of each, then what hitcurve answers to the
same questions, then its parts: blocks a second through the curve, tokens a second through hashing. Budgets: 1 s,
150 MB, 3 M blocks/s, 30 M tokens/s.

The traces lie in the folder ``shared`` beside the checkout; ``HITCURVE_SHARED`` names another.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HITCURVE_SHARED", REPOSITORY.parent / "shared"))
CONVERSATION = SHARED / "traces" / "mooncake_fast25_conversation_trace.jsonl"
ENVIRONMENTS = REPOSITORY / ".cache" / "hitcurve" / "benchmarks"
RUNS = 7
# With 64 MiB a block of 512 tokens (Llama 3.1 8B) these are 366 and 6,104 GiB; the third of llmtrafficlens' list.
POOLS = (5_856, 97_664, 7_812)

LIBCACHESIM = """
import json, sys, libcachesim
rows = [json.loads(line)["hash_ids"] for line in open(sys.argv[1])]
answer = {}
for pool in map(int, sys.argv[2:]):
    cache = libcachesim.LRU(cache_size=pool, hashpower=20)
    request = libcachesim.Request(obj_size=1, op=libcachesim.ReqOp.OP_GET)
    hits = 0
    for ids in rows:
        for one in ids:
            request.obj_id = one
            if cache.find(request, update_cache=False) is None:
                break
            hits += 1
        for one in reversed(ids):
            request.obj_id = one
            cache.get(request)
    answer[pool] = hits
print(json.dumps({"hit_blocks": answer}))
"""
KVLINT = """
import json, sys, time
from kvlint.sim.vllm_blocks import VLLMBlockSimulator
rows = [json.loads(line) for line in open(sys.argv[1])]
answer, spent, tokens = {}, 0.0, 0
for pool in (None, int(sys.argv[2])):
    simulator, hits, tokens = VLLMBlockSimulator(512, pool), 0, 0
    for number, row in enumerate(rows):
        prompt = [one for one in row["hash_ids"] for _ in range(512)][: row["input_length"]]
        start = time.perf_counter()
        hits += simulator.feed_tokens(str(number), prompt).cached_tokens
        spent += time.perf_counter() - start
        tokens += len(prompt)
    answer[pool] = hits / tokens
print(json.dumps({"hit_rate": answer, "simulation_only_s": spent / 2}))
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool from the package index: its command on a trace and what to read from its output."""

    package: str
    command: Callable[[Path, Path], list[str]]
    read: Callable[[str], dict[str, Any]]
    runs: int = RUNS


@dataclass(frozen=True, slots=True)
class Run:
    """One process: wall and processor seconds, peak MB, standard output."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def measured(command: list[str], folder: Path) -> Run:
    """Run a command in a folder. Raises CalledProcessError where it fails."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, text)
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def environment(package: str) -> Path | None:
    """The folder of programs of an environment that holds the package; None where it cannot be installed."""
    folder = ENVIRONMENTS / package
    if not (folder / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(folder / "bin" / "pip"), "install", "--quiet", package]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
            print(json.dumps({"tool": package, "skipped": reason[0]}))
            return None
        (folder / ".installed").touch()
    return folder / "bin"


def hitcurve(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("hitcurve")), "estimate", str(CONVERSATION), "--json", *arguments]


def answers(folder: Path) -> None:
    """What hitcurve says at the sizes that the other tools are asked about."""
    pools = [word for pool in POOLS for word in ("--pool-blocks", str(pool))]
    for warm_up in ("0", "0.5"):
        answer = json.loads(measured(hitcurve("--warm-up", warm_up, *pools), folder).output)
        points = {point["pool_blocks"]: point for point in answer["curve"]}
        said = {
            "tool": f"hitcurve, warm-up {warm_up}",
            "ceiling": {"token": answer["ceiling"]["token"], "engine_like": engine_ceiling(answer)},
            "hit_rate": {pool: point["hit_rate"] for pool, point in points.items()},
            "engine_like": {pool: point["engine_like_hit_rate"] for pool, point in points.items()},
            "hit_blocks": {
                pool: round(point["block_hit_rate"] * answer["query_blocks"]) for pool, point in points.items()
            },
        }
        print(json.dumps(said), flush=True)


def engine_ceiling(answer: dict[str, Any]) -> float:
    rate: float = answer["ceiling"]["engine_like"]["token"]
    return rate


def parts() -> None:
    """Blocks a second through the curve, tokens a second through hashing, in one process."""
    import numpy as np

    from hitcurve_simulator.estimate.chains import chains_of
    from hitcurve_simulator.estimate.hit_curve import hit_curve_of
    from hitcurve_simulator.estimate.prefix_hashes import prefix_hashes
    from hitcurve_simulator.traces import read_trace

    trace = read_trace(CONVERSATION)
    bound = chains_of(trace.rows, trace.block_size, trace.block_size).bound
    seconds = [clocked(lambda: hit_curve_of(bound)) for _ in range(RUNS)]
    tokens = np.random.default_rng(0).integers(0, 150_000, 1 << 22)
    starts = np.arange(0, len(tokens) + 1, 8_192)
    hashing = [clocked(lambda: prefix_hashes(tokens, starts)) for _ in range(RUNS)]
    print(
        json.dumps(
            {
                "part": "curve of all pool sizes",
                "million_blocks_per_s_best": round(bound.blocks / min(seconds) / 1e6, 1),
                "million_blocks_per_s_median": round(bound.blocks / statistics.median(seconds) / 1e6, 1),
            }
        )
    )
    print(
        json.dumps(
            {
                "part": "hashing",
                "million_tokens_per_s_best": round(len(tokens) / min(hashing) / 1e6),
                "million_tokens_per_s_median": round(len(tokens) / statistics.median(hashing) / 1e6),
            }
        )
    )


def clocked(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def read_hitcurve(text: str) -> dict[str, Any]:
    return {"counts": "whole log, all sizes", "ceiling": json.loads(text)["ceiling"]["token"]}


def read_kvcache_simulator(text: str) -> dict[str, Any]:
    answer = json.loads(text)
    points = {point["cacheBlocks"]: point["results"]["lru"]["hitRate"] for point in answer["points"]}
    return {"counts": "last half", "ceiling": answer["hitRateCeiling"], "hit_rate": points}


def read_llmtrafficlens(text: str) -> dict[str, Any]:
    lines = [
        line.strip() for line in text.splitlines() if "%" in line and ("tokens " in line or "unbounded" in line)
    ]
    return {"counts": "whole log", "said": [" ".join(line.split("(")[0].split()) for line in lines]}


def read_json(text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(text)
    return answer


PEERS = (
    Peer(
        "kvcache-simulator",
        lambda programs, trace: [
            *(str(programs / "kvcache-simulator"), "run", "--trace", str(trace), "--model", "llama-3.1-8b"),
            *("--block-size", "512", "--budgets-gib", "366,6104", "--policies", "lru"),
            *("--format", "json", "--no-progress"),
        ],
        read_kvcache_simulator,
    ),
    Peer(
        "llmtrafficlens",
        lambda programs, trace: [
            *(str(programs / "llmtrafficlens"), "profile", "--format", "mooncake", str(trace)),
            *("--warmup", "0", "-o", "out"),
        ],
        read_llmtrafficlens,
    ),
    Peer(
        "kvlint",
        lambda programs, trace: [str(programs / "python"), "-c", KVLINT, str(trace), str(POOLS[0])],
        read_json,
        runs=1,
    ),
    Peer(
        "libcachesim",
        lambda programs, trace: [str(programs / "python"), "-c", LIBCACHESIM, str(trace), *map(str, POOLS)],
        read_json,
        runs=1,
    ),
)


def side_by_side(folder: Path, with_peers: bool) -> None:
    """All tools in turn, again and again, so that a busy moment of the machine hits all of them."""
    tools = [Peer("hitcurve", lambda programs, trace: hitcurve(), read_hitcurve)]
    tools += PEERS if with_peers else ()
    commands: dict[Peer, list[str]] = {}
    for tool in tools:
        programs = Path(sys.executable).parent if tool.package == "hitcurve" else environment(tool.package)
        if programs is not None:
            commands[tool] = tool.command(programs, CONVERSATION)
    results: dict[Peer, list[Run]] = {tool: [] for tool in commands}
    for turn in range(RUNS + 1):
        for tool, command in commands.items():
            if turn <= tool.runs:
                results[tool].append(measured(command, folder))
    for tool, runs in results.items():
        # The first run compiles what some of them bring as source; it is not counted.
        wall, cpu = [run.wall_s for run in runs[1:]], [run.cpu_s for run in runs[1:]]
        figures = {
            "tool": tool.package,
            "wall_s": {"best": round(min(wall), 2), "median": round(statistics.median(wall), 2)},
            "cpu_s": {"best": round(min(cpu), 2), "median": round(statistics.median(cpu), 2)},
            "peak_mb": round(max(run.peak_mb for run in runs[1:])),
        }
        print(json.dumps({**figures, **tool.read(runs[-1].output)}), flush=True)


def main() -> None:
    if not CONVERSATION.exists():
        print(json.dumps({"skipped": f"no trace at {CONVERSATION}; set HITCURVE_SHARED"}))
        return
    with tempfile.TemporaryDirectory() as folder:
        side_by_side(Path(folder), with_peers="--no-peers" not in sys.argv)
        answers(Path(folder))
    # Last, since a process starts with the peak memory of the one that made it.
    parts()


if __name__ == "__main__":
    main()
