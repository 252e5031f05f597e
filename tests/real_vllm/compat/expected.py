"""What the scenario must show, the same for every release. All of it follows from the scenario by hand."""

from typing import Any

__all__ = ["COUNTERS", "LEDGER", "MANAGER", "counters_of"]

MANAGER: dict[str, Any] = {
    # [hit tokens, new blocks]; 10 usable blocks of 16 tokens.
    "first request": [0, 5],
    "equal request": [64, 1],
    "exact blocks": [48, 1],
    "refused reset": False,
    "large request": [0, 9],
    "evicted by it": 4,
    "no room": [None, None, None],
    "resumed": [128, 1],
    "decoded": True,
    "after waiting": [0, 5],
    "evicted prefix": [0, 5],
    "skipped": [0, 5],
    "reset": True,
    "after reset": [0, 5],
}

LEDGER: dict[str, Any] = {
    "active": True,
    "errors": {},
    "requests": 7,
    "query_tokens": 69 + 69 + 64 + 144 + 80 + 69 + 69,
    "hit_tokens": 64 + 48,
    # First sight of a, d and e; f was evicted; h was reset; the rest are last tokens and partial blocks.
    "miss_tokens": {
        "compulsory": 64 + 128 + 64,
        "capacity": 64,
        "reset": 64,
        "isolated": 0,
        "tail": 5 + 5 + 16 + 16 + 16 + 5 + 5,
        "stranded": 0,
    },
    "unexplained_miss_tokens": 0,
    "skipped_requests": 1,
    "skipped_tokens": 69,
    "preemptions": 1,
    "recompute_query_tokens": 144,
    "recompute_hit_tokens": 128,
    "resets": 1,
    "refused_resets": 1,
    "regretted_tokens": 64,
    "unknown_evictions": 0,
    "anomalies": 0,
    "lookups": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 4, "f": 1, "g": 1, "h": 1},
    "sums_right": True,
}

COUNTERS = {
    "admissions": "equal",
    "attempts": "also count each repeated lookup of a waiting request",
    "attempts and resumes": "also count each repeated lookup, and lookups after a preemption",
    "blocks": "blocks, not tokens; also repeated lookups and lookups after a preemption",
}
"""How vLLM's own counters relate to the ledger's query and hit tokens, by what they read after the scenario."""

_QUERIES = LEDGER["query_tokens"]
_HITS = LEDGER["hit_tokens"]
_WAITED = 3 * 80
_READ = {
    (_QUERIES, _HITS): "admissions",
    (_QUERIES + _WAITED, _HITS): "attempts",
    (_QUERIES + _WAITED + 144, _HITS + 128): "attempts and resumes",
    # Full blocks of each prompt, one fewer where it ends with a block, with e looked up four times and d twice.
    (4 + 4 + 3 + 8 + 8 + 4 * 4 + 4 + 4, (64 + 48 + 128) // 16): "blocks",
}


def counters_of(counters: dict[str, int]) -> str:
    """Which of ``COUNTERS`` it is; else the two numbers."""
    read = (counters["queries"], counters["hits"])
    return _READ.get(read, f"{read[0]} / {read[1]}")
