"""Log probabilities for requests that ask for those of their prompt.

The simulated model has none; what a client parses is there, with one fixed value for each token.
"""

from collections.abc import Sequence
from typing import Any

from hitcurve_simulator.server import tokenizer

__all__ = ["prompt_logprobs"]

_LOGPROB = -1.0


def prompt_logprobs(prompt: Sequence[int]) -> list[dict[str, dict[str, Any]] | None]:
    """One entry for each prompt token, the first of them None as nothing precedes it."""
    entries: list[dict[str, dict[str, Any]] | None] = [None]
    for token in prompt[1:]:
        value = {"logprob": _LOGPROB, "rank": 1, "decoded_token": tokenizer.decode([token])}
        entries.append({str(token): value})
    return entries
