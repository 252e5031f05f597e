"""Benchmark of the cache rules: ``python tests/benchmarks/simulator_rules.py``.

Requests of 64 full blocks of 16 tokens, one at a time, through lookup, allocation and freeing on one core, with a
pool of 20,000 blocks. The share of cached blocks goes from none (every block is taken, evicts another, is hashed
anew) to all. Budget: 20,000 requests a second for one group of full attention; two groups have no budget and show
what a hybrid model costs. Prints one JSON line per share, the best and the median of several
runs by CPU time, since other work on the machine only ever slows a run down.
"""

import json
import statistics
import time

from hitcurve_simulator.vllm import CacheManager, Request
from hitcurve_simulator.vllm_groups import FullAttention, GroupedCacheManager, SlidingWindow

BLOCKS = 64
BLOCK_SIZE = 16
PROMPT_TOKENS = BLOCKS * BLOCK_SIZE + 8
WINDOW = 512
POOL_BLOCKS = 20_000
REQUESTS = 5_000
RUNS = 5


def requests_of(shared_blocks: int) -> list[Request]:
    shared = tuple(range(shared_blocks))
    return [
        Request(
            str(number),
            block_contents=(*shared, *range(1000 + number * BLOCKS, 1000 + (number + 1) * BLOCKS - shared_blocks)),
            prompt_length=PROMPT_TOKENS,
        )
        for number in range(REQUESTS)
    ]


def one_group(shared_blocks: int) -> float:
    """Requests per second of full attention."""
    manager = CacheManager(POOL_BLOCKS + 1, BLOCK_SIZE)
    requests = requests_of(shared_blocks)
    start = time.process_time()
    for request in requests:
        state = manager.track(request)
        found = manager.lookup(state)
        manager.admit(state, PROMPT_TOKENS - len(found) * BLOCK_SIZE, found)
        manager.free(state)
    return REQUESTS / (time.process_time() - start)


def two_groups(shared_blocks: int) -> float:
    """Requests per second of full attention and a window, each with 64 blocks."""
    groups = [FullAttention(BLOCK_SIZE), SlidingWindow(BLOCK_SIZE, WINDOW)]
    manager = GroupedCacheManager(2 * POOL_BLOCKS + 1, groups)
    requests = requests_of(shared_blocks)
    start = time.process_time()
    for request in requests:
        state = manager.track(request)
        hit = manager.lookup(state)
        manager.admit(state, PROMPT_TOKENS - hit.tokens, hit)
        manager.free(state)
    return REQUESTS / (time.process_time() - start)


def main() -> None:
    for name, speed in (("full attention", one_group), ("full attention and a window", two_groups)):
        for shared_blocks in (0, 32, 56, 64):
            runs = [speed(shared_blocks) for _ in range(RUNS)]
            result = {
                "groups": name,
                "cached_blocks_of_64": shared_blocks,
                "requests_per_s_best": round(max(runs)),
                "requests_per_s_median": round(statistics.median(runs)),
            }
            print(json.dumps(result))


if __name__ == "__main__":
    main()
