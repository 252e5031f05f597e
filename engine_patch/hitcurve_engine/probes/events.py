"""What the hooks append to the queue: tuples whose first item is one of these kinds, whose second is the time.

They hold references to vLLM's own lists of hashes and blocks, since reading those is work that can wait, and
copying a list costs more than everything else here. Those lists only grow, so that a stretch of them stays what it
was; whatever does change before the recorder reads it is copied on the engine's thread. A request itself is kept
only where it is needed: one that outlives its end takes fresh memory for the next one.
"""

from typing import Any, Final

__all__ = [
    "ADAPTER",
    "ALLOCATED",
    "EVICT_BLOCKS",
    "FREED",
    "GAP",
    "GAP_EVENT",
    "LOOKUP",
    "RESET",
    "STORED",
    "TAKEN",
    "RawEvent",
]

RawEvent = tuple[Any, ...]

LOOKUP: Final = 0
"""(kind, at_s, request_id, number of tokens, hit tokens, skipped, result of the lookup | None, hashes of the
request, request | None): the result where its blocks are not the leading ones, the request as
``Probe.holds_requests`` says"""
ALLOCATED: Final = 1
"""(kind, at_s, request_id, blocks handed out | None, how many, what was stored | None, scheduled, admitted hit
tokens | None, external hit tokens | None, request | None): one allocation, in the order of its fields; what was
stored is as in STORED"""
TAKEN: Final = 2
"""(kind, at_s, blocks handed out, how many, request_id | None): those that held content are evicted. Like STORED
outside of an allocation, and where a request has several lists of blocks"""
STORED: Final = 3
"""(kind, at_s, request_id, (group, first index, end index, hashes, blocks, index of the first of them,
mask | None), request | None)"""
FREED: Final = 4
"""(kind, at_s, request_id, state, prompt tokens, cached tokens, external tokens, what may carry a trace | None,
arrival time, output tokens, request | None): the request where something isolates it"""
RESET: Final = 5
"""(kind, at_s, ok)"""
EVICT_BLOCKS: Final = 6
"""(kind, at_s, block ids)"""
GAP: Final = 7
"""(kind, at_s): the queue was full, events are missing here"""
ADAPTER: Final = 8
"""(kind, at_s, LoRARequest): the engine loaded an adapter"""

GAP_EVENT: Final[RawEvent] = (GAP, 0.0)
