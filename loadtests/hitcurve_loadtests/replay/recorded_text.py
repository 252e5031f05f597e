"""Recorded text, sent as it was said: conversations in the shape of ShareGPT, logs of OpenAI requests."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.prompts import Message
from hitcurve_loadtests.replay.rows import TraceRow

__all__ = ["conversation_rows", "logged_row"]

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "system": "system",
}
_STAMPS = ("timestamp", "at_s", "startTime", "created")
_BYTES_PER_TOKEN = 4
_DEFAULT_OUTPUT = 16


def conversation_rows(conversation: Mapping[str, Any]) -> Iterator[TraceRow]:
    """A request for each question, with all that was said before, recorded replies included.

    Replies are asked for in about their recorded length, four bytes to a token.
    """
    said = _said(conversation)
    for place, message in enumerate(said):
        if message.role == "user":
            follows = said[place + 1] if place + 1 < len(said) else None
            reply = follows.text if follows is not None and follows.role == "assistant" else ""
            yield TraceRow(None, 0, max(len(reply) // _BYTES_PER_TOKEN, 1), messages=tuple(said[: place + 1]))


def logged_row(values: Mapping[str, Any], where: str) -> TraceRow:
    """A logged request, bare or wrapped as ``body`` (batch files) or ``request``; UsageError without text."""
    request = next((values[name] for name in ("body", "request") if isinstance(values.get(name), Mapping)), values)
    if isinstance(request.get("messages"), list):
        messages = tuple(_message(entry, where) for entry in request["messages"])
    elif isinstance(request.get("prompt"), str):
        messages = (Message("user", request["prompt"]),)
    else:
        raise UsageError(f"{where}: the request has neither 'messages' nor a 'prompt' of text.")
    salt = request.get("cache_salt")
    return TraceRow(
        _at_s(values, where), 0, _output(values, request), messages=messages, cache_salt=salt and str(salt)
    )


def _said(conversation: Mapping[str, Any]) -> list[Message]:
    said: list[Message] = []
    for entry in conversation.get("conversations", conversation.get("conversation")) or ():
        if not isinstance(entry, Mapping):
            continue
        role = _ROLES.get(str(entry.get("from", entry.get("role"))))
        text = entry.get("value", entry.get("content"))
        begun = any(message.role == "user" for message in said)
        if role is not None and isinstance(text, str) and (begun or role != "assistant"):
            said.append(Message(role, text))
    return said


def _message(entry: object, where: str) -> Message:
    role = entry.get("role") if isinstance(entry, Mapping) else None
    content = entry.get("content") if isinstance(entry, Mapping) else None
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(role, str) or not isinstance(content, str):
        raise UsageError(f"{where}: a message has no role or no text; such requests cannot be replayed.")
    return Message(role, content)


def _output(values: Mapping[str, Any], request: Mapping[str, Any]) -> int:
    """What the engine had counted, else what had been asked for."""
    response = values.get("response")
    places = [values, response if isinstance(response, Mapping) else {}, request]
    places.append(places[1].get("body") or {})
    for place in places:
        usage = place.get("usage")
        if isinstance(usage, Mapping) and isinstance(usage.get("completion_tokens"), int):
            return max(int(usage["completion_tokens"]), 1)
    asked = request.get("max_completion_tokens", request.get("max_tokens"))
    return asked if isinstance(asked, int) and asked > 0 else _DEFAULT_OUTPUT


def _at_s(values: Mapping[str, Any], where: str) -> float | None:
    stamp = next((values[name] for name in _STAMPS if values.get(name) is not None), None)
    if stamp is None:
        return None
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        return float(stamp)
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        raise UsageError(f"{where}: the time {stamp!r} is neither seconds nor ISO 8601.") from None
