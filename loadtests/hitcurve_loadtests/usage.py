"""Token counts as an OpenAI-compatible engine reports them for one request."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Usage", "read_usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; ``None`` is "the engine did not say", which is never zero.

    ``cached_tokens`` stays unknown on a vLLM without ``--enable-prompt-tokens-details``: its
    ``prompt_tokens_details`` is null then (vLLM 0.32).
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


def read_usage(usage: object) -> Usage:
    """The counts of a ``usage`` object; whatever is absent, null or not a count is unknown."""
    if not isinstance(usage, Mapping):
        return Usage()
    details = usage.get("prompt_tokens_details")
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, Mapping) else None,
    )


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
