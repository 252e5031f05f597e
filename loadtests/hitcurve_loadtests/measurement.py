"""What the measurement of one response holds."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Outcome", "StreamMeasurement"]

Outcome = Literal["ok", "failed"]


@dataclass(slots=True)
class StreamMeasurement:
    """What one response showed. Times in seconds since the request was sent; ``None`` is "no value".

    Nobody changes it. It is not frozen since a frozen one takes four times as long to make, for every request.
    """

    outcome: Outcome
    reason: str | None
    """Why it failed; ``None`` where it did not."""
    status: int | None
    """HTTP status; ``None`` where no answer came."""
    ttft_s: float | None
    """First non-empty delta, reasoning included. A response that is not streamed has none."""
    first_content_s: float | None
    """First non-empty delta that is not reasoning."""
    last_token_s: float | None
    tpot_s: float | None
    """(last token - first token) / (completion tokens - 1). A chunk may hold many tokens, so the engine's own
    count is used; without it, or with a single token, there is no value."""
    end_s: float
    """When the last byte came or the connection was closed."""
    text: str
    reasoning: str
    content_events: int
    """Events with a non-empty delta. Not a count of tokens."""
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    queue_s: float | None = None
    """How long the engine says that the request waited before it was scheduled."""
