"""Error and cost of the live curve over pool sizes: ``python tests/benchmarks/pool_curve.py TRACE``.

``error`` lines: the largest difference over all six sizes between the estimate and the estimator's exact curve, in
points of hit rate, on the requests of a trace (Mooncake's conversation trace: ``--block-size 512``). ``by chain``
samples whole chains by their first block instead, as ratio of sampled hits to sampled queries. ``cost`` lines: CPU
microseconds per request of 64 blocks for the curve alone, and bytes of memory. One JSON line each.
"""

import argparse
import json
import random
import time
import tracemalloc
from pathlib import Path

import numpy as np

from hitcurve_engine.pool_curve import POOL_SIZES, PoolCurve
from hitcurve_engine.pool_curve.layered_stack import LayeredStack
from hitcurve_engine.pool_curve.seen_sample import PLACES, place_of
from hitcurve_engine.pool_curve.sizes import RATIOS
from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.hit_curve import hit_curve_of
from hitcurve_simulator.traces import read_trace

BLOCKS = 64
REQUESTS = 2000
Request = tuple[list[int], int]
"""Keys of the full blocks, and tokens."""


def engine_hits(requests: list[Request], pool: int, size: int) -> list[int]:
    """Blocks that a pool of this size finds of each request, one request after the other."""
    stack = LayeredStack([pool])
    hits = []
    for keys, tokens in requests:
        found = 0
        while found < (tokens - 1) // size and found < len(keys) and stack.smallest_with(keys[found]) == 0:
            found += 1
        hits.append(found)
        stack.use(reversed(keys))
    return hits


def feed(curve: PoolCurve, requests: list[Request], hits: list[int], size: int) -> float:
    """CPU seconds."""
    began = time.process_time()
    for number, ((keys, tokens), hit) in enumerate(zip(requests, hits, strict=True)):
        name = f"r{number}"
        curve.looked_up(name, keys, tokens, hit * size)
        curve.stored(name, keys[hit:])
        curve.scheduled(name)
        curve.released(name, finished=True)
    return time.process_time() - began


def by_chain(requests: list[Request], pool: int, size: int, share: float, salt: int) -> list[float]:
    stack = LayeredStack([max(1, round(ratio * pool * share)) for ratio in RATIOS])
    hits, queries = [0] * len(RATIOS), 0
    for keys, tokens in requests:
        if not keys or place_of((keys[0], salt)) >= share * PLACES:
            continue
        queries += tokens
        for key in keys[: (tokens - 1) // size]:
            for place in range(stack.smallest_with(key), len(RATIOS)):
                hits[place] += size
        stack.use(reversed(keys))
    return [hit / queries if queries else 0.0 for hit in hits]


def errors(trace: Path, size: int, pool: int) -> None:
    accesses = chains_of(read_trace(trace, size).rows, size, size).engine
    cuts = zip(accesses.starts[:-1].tolist(), accesses.starts[1:].tolist(), accesses.tokens.tolist(), strict=True)
    keys = accesses.keys.tolist()
    requests: list[Request] = [(keys[start:end], tokens) for start, end, tokens in cuts]
    truth = hit_curve_of(accesses)
    pools = np.array([max(1, round(ratio * pool)) for ratio in RATIOS] + [truth.largest_pool])
    exact = (truth.hit_tokens(pools) / truth.query_tokens).tolist()
    print(json.dumps({"exact": dict(zip(POOL_SIZES, (round(100 * rate, 2) for rate in exact), strict=True))}))
    hits = engine_hits(requests, pool, size)
    for followed in (1, 4, 16, 64):
        curve = PoolCurve(size, pool, int(8 * pool / followed))
        feed(curve, requests, hits, size)
        sums = curve.sums()
        off = [
            tokens / sums.query_tokens - rate for tokens, rate in zip(sums.hit_tokens.values(), exact, strict=True)
        ]
        worst = [
            max(
                abs(said - rate)
                for said, rate in zip(by_chain(requests, pool, size, 1 / followed, salt), exact, strict=False)
            )
            for salt in range(4)
        ]
        line = {"followed": f"1/{followed}", "error": round(100 * max(map(abs, off)), 2)}
        print(json.dumps({**line, "by_chain": [round(100 * one, 2) for one in sorted(worst)]}), flush=True)


def costs() -> None:
    dice = random.Random(1)
    shared = [dice.randbytes(32) for _ in range(BLOCKS)]
    for pool in (4095, 30_000):
        for share in (0.0, 0.9):
            hit = int(BLOCKS * share)
            chains = [[*shared[:hit], *(dice.randbytes(32) for _ in range(BLOCKS - hit))] for _ in range(REQUESTS)]
            requests = [(chain, BLOCKS * 16 + 1) for chain in chains]
            curve = PoolCurve(16, pool, 16_384)
            spent = feed(curve, requests, [hit] * REQUESTS, 16)
            line = {"pool": pool, "hits": share, "followed": round(curve.sums().sampled_share, 3)}
            print(json.dumps({"cost": line, "us_per_request": round(spent / REQUESTS * 1e6, 1)}), flush=True)
    curve = PoolCurve(16, 30_000, 16_384)
    tracemalloc.start()
    for number in range(20_000):
        curve.stored(f"r{number}", [dice.randbytes(32) for _ in range(BLOCKS)])
        curve.released(f"r{number}", finished=True)
    held, keys = tracemalloc.get_traced_memory()[0], curve.sums().keys
    print(json.dumps({"memory": held, "keys": keys, "bytes_per_key": round(held / keys)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--block-size", type=int, default=512)
    parser.add_argument("--pool-blocks", type=int, default=6000)
    options = parser.parse_args()
    if options.trace is not None:
        errors(options.trace, options.block_size, options.pool_blocks)
    costs()


if __name__ == "__main__":
    main()
