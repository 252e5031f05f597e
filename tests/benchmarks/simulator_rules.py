"""Benchmark of the cache rules: ``python tests/benchmarks/simulator_rules.py``.

Requests of 64 full blocks of 16 tokens, one at a time, through lookup, allocation and freeing on one core, with a
pool of 20,000 blocks. The share of cached blocks goes from none (every block is taken, evicts another, is hashed
anew) to all. Budget: 20,000 requests a second. Prints one JSON line per share, the best and the median of several
runs by CPU time, since other work on the machine only ever slows a run down.
"""

import json
import statistics
import time

from hitcurve_simulator.vllm import CacheManager, Request

BLOCKS = 64
BLOCK_SIZE = 16
POOL_BLOCKS = 20_000
REQUESTS = 5_000
RUNS = 5


def requests_per_second(shared_blocks: int) -> float:
    manager = CacheManager(POOL_BLOCKS + 1, BLOCK_SIZE)
    length = BLOCKS * BLOCK_SIZE + 8
    shared = tuple(range(shared_blocks))
    requests = [
        Request(
            str(number),
            block_contents=(*shared, *range(1000 + number * BLOCKS, 1000 + (number + 1) * BLOCKS - shared_blocks)),
            prompt_length=length,
        )
        for number in range(REQUESTS)
    ]
    start = time.process_time()
    for request in requests:
        state = manager.track(request)
        found = manager.lookup(state)
        manager.admit(state, length - len(found) * BLOCK_SIZE, found)
        manager.free(state)
    return REQUESTS / (time.process_time() - start)


def main() -> None:
    for shared_blocks in (0, 32, 56, 64):
        runs = [requests_per_second(shared_blocks) for _ in range(RUNS)]
        result = {
            "cached_blocks_of_64": shared_blocks,
            "requests_per_s_best": round(max(runs)),
            "requests_per_s_median": round(statistics.median(runs)),
        }
        print(json.dumps(result))


if __name__ == "__main__":
    main()
