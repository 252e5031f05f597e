"""What OpenAI's answers hold: the delta of a choice, vLLM's metrics of a request, an answer that comes whole."""

from collections.abc import Mapping
from typing import Any

from hitcurve_loadtests.other_dialects import Brought, read_other_body
from hitcurve_loadtests.usage import read_usage

__all__ = ["delta_of", "queue_time_s", "read_answer"]

_MS_PER_S = 1000.0
_OTHER = ("function_call", "refusal", "audio")
"""What OpenAI's deltas may bring beside content and tool calls."""


def delta_of(choice: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    """Key of the text, text, reasoning, whether anything else was generated (a tool call), of one choice."""
    delta = choice.get("delta") or choice.get("message")
    if not isinstance(delta, dict):
        return "text", _text(choice.get("text")), "", False
    reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    other = _any_call(delta.get("tool_calls")) or any(delta.get(name) for name in _OTHER)
    return "content", _text(delta.get("content")), reasoning, other


def _any_call(calls: object) -> bool:
    """Whether a delta brings a part of a tool call: its name or some of its arguments."""
    if not isinstance(calls, list):
        return bool(calls)
    functions = [call.get("function") if isinstance(call, dict) else None for call in calls]
    return any(isinstance(one, dict) and (one.get("name") or one.get("arguments")) for one in functions)


def queue_time_s(metrics: object) -> float | None:
    """How long a request waited, as vLLM with --enable-per-request-metrics says at its end (vLLM 0.32)."""
    waited_ms = metrics.get("queue_time_ms") if isinstance(metrics, dict) else None
    if not isinstance(waited_ms, (int, float)) or isinstance(waited_ms, bool):
        return None
    return waited_ms / _MS_PER_S


def read_answer(answer: Mapping[str, Any]) -> Brought | None:
    """All that an answer brought that came at once, of any dialect; ``None`` where it is of none."""
    choices = answer.get("choices")
    if not isinstance(choices, list):
        return read_other_body(answer)
    content, reasoning, finish = "", "", None
    for choice in choices:
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            _, content, reasoning, _ = delta_of(choice)
            finish = choice.get("finish_reason")
    return Brought(
        content=content,
        reasoning=reasoning,
        usage=read_usage(answer.get("usage")),
        queue_s=queue_time_s(answer.get("metrics")),
        finish=finish,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
