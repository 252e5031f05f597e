"""The two definitions of a hit, always printed beside the numbers that follow them."""

from typing import Final

__all__ = ["BOUND", "ENGINE_LIKE"]

BOUND: Final = (
    "trace bound: every block of a prompt counts, a partial last one included, and a prompt may be found whole; "
    "token = hit tokens / prompt tokens, block = hit blocks / prompt blocks"
)
ENGINE_LIKE: Final = (
    "engine-like: only full blocks are found and never the last token of a prompt; "
    "token = hit tokens / prompt tokens, block = found full blocks / full blocks"
)
