"""What the hooks append to the queue: tuples whose first item is one of these kinds, whose second is the time.

They hold references to vLLM's own objects (a request, its lists of hashes and blocks), since reading those is work
that can wait, and copying a list costs more than everything else here. Those lists only grow, so that a stretch of
them stays what it was; whatever does change before the recorder reads it is copied on the engine's thread.
"""

from typing import Any, Final

__all__ = [
    "ADAPTER",
    "EVICT_BLOCKS",
    "FREED",
    "GAP",
    "GAP_EVENT",
    "LOOKUP",
    "RESET",
    "SCHEDULED",
    "STORED",
    "TAKEN",
    "RawEvent",
]

RawEvent = tuple[Any, ...]

LOOKUP: Final = 0
"""(kind, at_s, request, number of tokens, hit tokens, result of the lookup | None, hashes of the request)"""
SCHEDULED: Final = 1
"""(kind, at_s, request_id, admitted hit tokens | None, external hit tokens | None)"""
TAKEN: Final = 2
"""(kind, at_s, blocks handed out, how many, request | None): those that held content are evicted"""
STORED: Final = 3
"""(kind, at_s, request, group, first index, end index, hashes, blocks, index of the first of them, mask | None)"""
FREED: Final = 4
"""(kind, at_s, request, state)"""
RESET: Final = 5
"""(kind, at_s, ok)"""
EVICT_BLOCKS: Final = 6
"""(kind, at_s, block ids)"""
GAP: Final = 7
"""(kind, at_s): the queue was full, events are missing here"""
ADAPTER: Final = 8
"""(kind, at_s, LoRARequest): the engine loaded an adapter"""

GAP_EVENT: Final[RawEvent] = (GAP, 0.0)
