"""Token counts as engines report them for one request, in the words of each API."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Usage", "read_usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request; ``None`` is "the engine did not say", which is never zero.

    ``prompt_tokens`` is the whole prompt, ``cached_tokens`` the part of it that came from a cache.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None

    def updated(self, later: "Usage") -> "Usage":
        """What is known once ``later`` was reported too: each count is the latest that was told."""
        if None not in (later.prompt_tokens, later.completion_tokens) and self.cached_tokens is None:
            return later
        return Usage(
            self.prompt_tokens if later.prompt_tokens is None else later.prompt_tokens,
            self.completion_tokens if later.completion_tokens is None else later.completion_tokens,
            self.cached_tokens if later.cached_tokens is None else later.cached_tokens,
        )


def read_usage(usage: object) -> Usage:
    """The counts of a ``usage`` object; whatever is absent, null or not a count is unknown.

    - OpenAI's: ``prompt_tokens`` with ``prompt_tokens_details.cached_tokens``. The details are null on a vLLM
      without ``--enable-prompt-tokens-details`` (vLLM 0.32) and on an SGLang without ``--enable-cache-report``.
    - Anthropic's: ``input_tokens`` are those that were neither read from nor written to a cache, so the prompt is
      their sum with ``cache_read_input_tokens`` and ``cache_creation_input_tokens``. vLLM 0.32 leaves the two out
      where it does not know them, SGLang 0.5 also where they are zero: absent is unknown.
    - OpenAI's Responses API: ``input_tokens`` is the whole prompt, the details are ``input_tokens_details``.
    - SGLang's ``meta_info``: ``prompt_tokens``, ``completion_tokens`` and ``cached_tokens`` side by side.
    """
    if not isinstance(usage, Mapping):
        return Usage()
    details = usage.get("prompt_tokens_details")
    if details is None and ("input_tokens" in usage or "output_tokens" in usage):
        return _read_input_and_output(usage)
    return Usage(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(details.get("cached_tokens") if isinstance(details, Mapping) else usage.get("cached_tokens")),
    )


def _read_input_and_output(usage: Mapping[str, object]) -> Usage:
    fresh, output = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    details = usage.get("input_tokens_details")
    if isinstance(details, Mapping):
        return Usage(fresh, output, _count(details.get("cached_tokens")))
    read, written = (_count(usage.get(f"cache_{kind}_input_tokens")) for kind in ("read", "creation"))
    return Usage(None if fresh is None else fresh + (read or 0) + (written or 0), output, read)


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
