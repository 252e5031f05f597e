"""Recognises events that equal an earlier one but for the text they bring, without parsing them again.

An engine repeats all of a token event but its text, so the bytes before and behind the text of an event that was
parsed tell what the next one is: the same JSON with another string in one place.
"""

__all__ = ["SameEvent"]

_MOST_LESSONS = 8
"""Where every event differs in more than its text, learning is given up."""


class SameEvent:
    """Learns from a parsed event with one choice, some text and nothing else that counts."""

    def __init__(self) -> None:
        self._before = b""
        self._behind = b""
        self._between = b""
        self._lessons = 0

    def take(self, data: bytes, start: int) -> tuple[int, int, str] | None:
        """Where known events end, how many they are, and all their text; ``None`` where the first is not known.

        An event has to begin at ``start``. What comes behind the end has to be parsed.
        """
        before, behind = self._before, self._behind
        if not before or not data.startswith(before, start):
            return None
        end = len(data) if data.endswith(behind) else data.rfind(behind) + len(behind)
        start, stop = start + len(before), end - len(behind)
        if stop <= start:
            return None
        texts = data[start:stop].split(self._between)
        text = _plain(texts)
        if text is not None:
            return end, len(texts), text
        known = _plain_at_first(texts)
        if not known:
            return None
        length = sum(map(len, texts[: len(known)])) + (len(known) - 1) * len(self._between)
        return start + length + len(behind), len(known), "".join(known)

    def learn(self, data: bytes, key: str, text: str, end: bytes) -> None:
        """Remember an event that brings ``text`` under ``key`` and nothing else; ``end`` stands behind it."""
        if self._lessons >= _MOST_LESSONS:
            return
        self._lessons += 1
        name = b'"%s"' % key.encode()
        colon = data.find(name) + len(name)
        start = data.find(b'"', colon) + 1
        # The data of an event that took several lines looks otherwise in the stream.
        if data.count(name) != 1 or data[colon:start].strip(b' "') != b":" or b"\n" in data:
            return
        stop = start + len(text)
        if text.isascii() and data.startswith(b'%s"' % text.encode(), start):
            self._before = b"data: " + data[:start]
            self._behind = data[stop:] + end
            self._between = self._behind + self._before


def _plain(texts: list[bytes]) -> str | None:
    """The texts as one; ``None`` where one of them may not be what it looks like in a JSON string."""
    joined = b"".join(texts) if len(texts) > 1 else texts[0]
    if b'"' in joined or b"\\" in joined or b"" in texts:
        return None
    if joined.isascii():
        text = joined.decode()
    else:
        try:
            # Each by itself: half a character may not be completed by the next text.
            text = "".join([text.decode() for text in texts])
        except UnicodeDecodeError:
            return None
    return text if text.isprintable() else None


def _plain_at_first(texts: list[bytes]) -> list[str]:
    known = []
    for text in texts:
        found = _plain([text])
        if found is None:
            break
        known.append(found)
    return known
