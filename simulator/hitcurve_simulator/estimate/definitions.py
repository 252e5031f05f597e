"""What the numbers mean, always printed beside them."""

from typing import Final

__all__ = ["BOUND", "ENGINE_LIKE", "SPEED_UP"]

BOUND: Final = (
    "all blocks: every block of a prompt counts and takes a place in the pool, a partial last one included, and a "
    "prompt may be found whole; without a limit no engine finds more, but in a small pool engine-like may be "
    "higher, since partial blocks take no place there; "
    "token = hit tokens / prompt tokens, block = hit blocks / prompt blocks"
)
ENGINE_LIKE: Final = (
    "engine-like: only full blocks are found and never the last token of a prompt; "
    "token = hit tokens / prompt tokens, block = found full blocks / full blocks"
)
SPEED_UP: Final = (
    "first order, of prefill work only: 1 / (1 - engine-like hit rate); new tokens still attend to the cached "
    "ones, the last block of a prompt is always computed, and neither decoding nor queueing is in it"
)
