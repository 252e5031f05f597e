"""What a request log says became of a request: tokens by ``usage``, times, failure, and the reply itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Served", "reply_text", "seconds", "served_of"]

_STARTS = ("at_s", "started_at_s", "timestamp", "startTime", "start_time", "created")
_ENDS = ("ended_at_s", "endTime", "end_time")
_FIRST_ERROR = 400


@dataclass(frozen=True, slots=True)
class Served:
    """One request as its client or a gateway saw it; None is unknown. Volumes in tokens, times in Unix seconds."""

    failure: str | None = None
    """Why the request failed, None for one that was answered."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    started_s: float | None = None
    ended_s: float | None = None
    engine: str | None = None
    """Which of several engines served it."""


def served_of(values: Mapping[str, Any]) -> Served:
    """Read ``usage`` (of the row, its ``response`` or that one's ``body``) or the same names on the row itself.

    Failed are rows with ``outcome: failed``, an ``error``, or a status from 400 on.
    """
    usage = next((place["usage"] for place in _places(values) if isinstance(place.get("usage"), Mapping)), values)
    details = usage.get("prompt_tokens_details")
    cached = usage.get("cached_tokens", details.get("cached_tokens") if isinstance(details, Mapping) else None)
    started_s = next((found for name in _STARTS if (found := seconds(values.get(name))) is not None), None)
    engine = values.get("engine")
    return Served(
        failure=_failure(values),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(cached),
        completion_tokens=_count(usage.get("completion_tokens")),
        started_s=started_s,
        ended_s=_ended_s(values, started_s),
        engine=None if engine is None else str(engine),
    )


def reply_text(values: Mapping[str, Any]) -> str | None:
    """The text of the first choice of a logged response, None where there is none."""
    for place in _places(values):
        choices = place.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            continue
        message = choice.get("message")
        text = choice.get("text", message.get("content") if isinstance(message, Mapping) else None)
        return text if isinstance(text, str) else None
    return None


def seconds(stamp: object) -> float | None:
    """Seconds of a number or of a time in ISO 8601; None for anything else."""
    if isinstance(stamp, str):
        try:
            return datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            return None
    return float(stamp) if isinstance(stamp, int | float) and not isinstance(stamp, bool) else None


def _ended_s(values: Mapping[str, Any], started_s: float | None) -> float | None:
    ended_s = next((found for name in _ENDS if (found := seconds(values.get(name))) is not None), None)
    lasted_s = seconds(values.get("duration_s"))
    if ended_s is None and started_s is not None and lasted_s is not None:
        return started_s + lasted_s
    return ended_s


def _places(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The row, its response, and the body of that."""
    place: object = values
    for name in ("response", "body"):
        if isinstance(place, Mapping):
            yield place
            place = place.get(name)
    if isinstance(place, Mapping):
        yield place


def _failure(values: Mapping[str, Any]) -> str | None:
    response = values.get("response")
    for place in (values, response if isinstance(response, Mapping) else {}):
        status = next((place[name] for name in ("status", "status_code") if place.get(name) is not None), None)
        if isinstance(status, int) and status >= _FIRST_ERROR:
            return f"HTTP {status}"
    if values.get("outcome") == "failed" or values.get("status") in ("failed", "failure", "error"):
        return str(values.get("reason") or "failed")
    error = values.get("error")
    if error:
        return str(error.get("message", "error") if isinstance(error, Mapping) else error)
    return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
