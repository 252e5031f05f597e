"""Stream events that are not of OpenAI's kind: Anthropic's messages, SGLang's ``/generate``.

What an event brings is given in one form for both. Sources: Anthropic's documentation of streamed messages; the
engines that serve them, vLLM 0.32 (``entrypoints/anthropic``) and SGLang 0.5 (``managers/tokenizer_manager.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hitcurve_loadtests.usage import Usage, read_usage

__all__ = ["Brought", "read_other_body", "read_other_event"]


@dataclass(frozen=True, slots=True)
class Brought:
    """What one event, or a whole answer, brought."""

    content: str = ""
    reasoning: str = ""
    other: bool = False
    """Whether something else was generated, such as a part of a tool call."""
    replaces: bool = False
    """Whether ``content`` is all text so far and not what is new."""
    usage: Usage | None = None
    queue_s: float | None = None
    finish: object = None
    """Why generation ended; ``None`` while it goes on."""


def read_other_event(event: Mapping[str, Any]) -> Brought | None:
    """``None`` where the event says nothing that counts."""
    meta = event.get("meta_info")
    if isinstance(meta, Mapping):
        return _from_generate(event, meta)
    kind = event.get("type")
    if kind == "content_block_delta":
        return _from_block(event.get("delta"))
    if kind == "message_start":
        message = event.get("message")
        return Brought(usage=read_usage(message.get("usage"))) if isinstance(message, Mapping) else None
    if kind == "message_delta":
        delta = event.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, Mapping) else None
        return Brought(usage=read_usage(event.get("usage")), finish=reason)
    return Brought(finish=kind) if kind == "message_stop" else None


def read_other_body(answer: Mapping[str, Any]) -> Brought | None:
    """The same for an answer that is not streamed."""
    meta = answer.get("meta_info")
    if isinstance(meta, Mapping):
        return _from_generate(answer, meta)
    blocks = answer.get("content")
    if not isinstance(blocks, list):
        return None
    brought = [found for block in blocks if (found := _from_block(block)) is not None]
    return Brought(
        content="".join(one.content for one in brought),
        reasoning="".join(one.reasoning for one in brought),
        other=any(one.other for one in brought),
        usage=read_usage(answer.get("usage")),
        finish=answer.get("stop_reason"),
    )


def _from_block(delta: object) -> Brought | None:
    if not isinstance(delta, Mapping):
        return None
    return Brought(
        content=_text(delta.get("text")),
        reasoning=_text(delta.get("thinking")),
        other=bool(delta.get("partial_json")) or delta.get("type") == "tool_use",
    )


def _from_generate(event: Mapping[str, Any], meta: Mapping[str, Any]) -> Brought:
    waited, finish = meta.get("queue_time"), meta.get("finish_reason")
    return Brought(
        content=_text(event.get("text")),
        replaces=True,
        usage=read_usage(meta),
        queue_s=waited if isinstance(waited, (int, float)) and not isinstance(waited, bool) else None,
        finish=finish.get("type") if isinstance(finish, Mapping) else finish,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
