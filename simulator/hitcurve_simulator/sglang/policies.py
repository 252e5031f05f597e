"""Which leaf goes first: SGLang's eviction policies (``srt/mem_cache/evict_policy.py``, 0.5.22).

T-LRU is not among them: it needs thresholds that depend on the traffic.
"""

from collections.abc import Callable
from typing import Literal, get_args

from hitcurve_simulator.sglang.node import Node

__all__ = ["POLICIES", "Policy", "rank_of"]

Policy = Literal["lru", "lfu", "fifo", "mru", "filo", "priority", "slru"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

PROTECTED_AFTER_HITS = 2
"""SLRU: a node that was inserted this often is in the protected segment."""

Rank = tuple[int, int]

_RANKS: dict[str, Callable[[Node], Rank]] = {
    "lru": lambda node: (0, node.used_at),
    "lfu": lambda node: (node.hits, node.used_at),
    "fifo": lambda node: (0, node.made_at),
    "mru": lambda node: (0, -node.used_at),
    "filo": lambda node: (0, -node.made_at),
    "priority": lambda node: (node.priority, node.used_at),
    "slru": lambda node: (int(node.hits >= PROTECTED_AFTER_HITS), node.used_at),
}


def rank_of(policy: Policy) -> Callable[[Node], Rank]:
    """The rank by which leaves are evicted, the smallest first."""
    return _RANKS[policy]
