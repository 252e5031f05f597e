"""Recognises events that equal an earlier one but for the text they bring, without parsing them again.

An engine repeats all of a token event but its text, so the bytes before and behind the text of an event that was
parsed tell what the next one is: the same JSON with another string in one place.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SameEvent"]

_VALUE_OF = {key: re.compile(rb'"%s"\s*:\s*"' % key.encode()) for key in ("text", "content")}
_MOST_LESSONS = 8
"""Where every event differs in more than its text, learning is given up."""


class SameEvent:
    """Learns from parsed events; knows only events with one choice, some text and nothing else that counts."""

    def __init__(self) -> None:
        self._before: bytes | None = None
        self._behind = b""
        self._lessons = 0

    def texts_of(self, events: Sequence[bytes]) -> tuple[int, str]:
        """How many of the first events equal the learned one but for their text, and all that text.

        What remains has to be parsed.
        """
        before, behind = self._before, self._behind
        if before is None:
            return 0, ""
        start, end = len(before), -len(behind)
        texts = []
        for data in events:
            if not (data.startswith(before) and data.endswith(behind)) or len(data) <= start - end:
                break
            texts.append(data[start:end])
        while texts:
            found = _plain(texts)
            if found is not None:
                return len(texts), found
            texts = texts[: len(texts) // 2]
        return 0, ""

    def learn(self, data: bytes, event: Mapping[str, Any]) -> None:
        """Remember a parsed event, where text is all that it brings."""
        if self._lessons >= _MOST_LESSONS or (found := _only_text(event)) is None:
            return
        self._lessons += 1
        key, text = found
        places = _VALUE_OF[key].findall(data)
        start = data.find(places[0]) + len(places[0]) if len(places) == 1 else -1
        if start >= 0 and data.startswith(text.encode() + b'"', start):
            self._before = data[:start]
            self._behind = data[start + len(text) :]


def _plain(texts: list[bytes]) -> str | None:
    """The texts as one; ``None`` where one of them may not be what it looks like in a JSON string."""
    try:
        # Each by itself: half a character may not be completed by the next text.
        text = "".join([text.decode() for text in texts])
    except UnicodeDecodeError:
        return None
    return text if '"' not in text and "\\" not in text and text.isprintable() else None


def _only_text(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key and the text of the event's only choice; ``None`` where there is more to it, or escapes in it."""
    choices = event.get("choices")
    if event.get("usage") is not None or "error" in event or event.get("object") == "error":
        return None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta") or choice.get("message")
    if choice.get("index", 0) != 0 or choice.get("finish_reason"):
        return None
    if isinstance(delta, dict):
        more = delta.get("reasoning_content") or delta.get("reasoning") or delta.get("tool_calls")
        key, text = "content", None if more else delta.get("content")
    else:
        key, text = "text", choice.get("text")
    plain = (
        isinstance(text, str) and text.isprintable() and '"' not in text and "\\" not in text and text.isascii()
    )
    return (key, text) if plain and text else None
