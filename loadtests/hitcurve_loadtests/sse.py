"""Server-sent events: from bytes, cut anywhere, to the data of each event.

Follows the event stream interpretation of the WHATWG HTML standard (section 9.2.6): lines end with LF, CRLF
or CR, a line that begins with a colon is a comment, one space after ``data:`` is dropped, the ``data`` lines of
one event are joined with LF, and a blank line ends the event.
"""

import re

__all__ = ["EventReader"]

_DATA = b"data: "
_LINE_END = re.compile(rb"\r\n|\r|\n")


class EventReader:
    """Collects bytes and gives back the data of every event they complete."""

    def __init__(self) -> None:
        self._line = b""
        self._data: list[bytes] = []
        self._skip_newline = False

    @property
    def between_events(self) -> bool:
        """Whether the next byte begins an event."""
        return not (self._line or self._data or self._skip_newline)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes of the stream; the data of the events that end in them, in order."""
        if chunk.startswith(_DATA) and chunk.endswith(b"\n\n") and self.between_events:
            data = chunk[len(_DATA) : -2]
            if b"\n" not in data and b"\r" not in data:
                return [data]
        if b"\r" in chunk or b"\r" in self._line or self._data or self._skip_newline:
            return self._feed_lines(chunk)
        # Nearly all streams are of plain LF lines: whole events are cut out at once.
        whole, end, self._line = (self._line + chunk).rpartition(b"\n\n")
        if not end:
            return []
        events: list[bytes] = whole[len(_DATA) :].split(b"\n\n" + _DATA) if whole.startswith(_DATA) else []
        if events and whole.count(b"\n") == 2 * len(events) - 2:
            return events
        events = []
        for part in whole.split(b"\n\n"):
            if part.startswith(_DATA) and b"\n" not in part:
                events.append(part[len(_DATA) :])
            else:
                self._take_lines(part.split(b"\n"), events)
                self._end_event(events)
        return events

    def rest(self) -> bytes | None:
        """Data of the event that the stream ended in the middle of; ``None`` where it ended between events."""
        if self.between_events:
            return None
        for line in _LINE_END.split(self._line):
            if line:
                self._take(line)
        self._line = b""
        data = b"\n".join(self._data) if self._data else None
        self._data.clear()
        return data

    def _feed_lines(self, chunk: bytes) -> list[bytes]:
        """The long way, line by line, for any mixture of line ends."""
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        buffer = self._line + chunk
        self._skip_newline = buffer.endswith(b"\r")
        *lines, self._line = _LINE_END.split(buffer)
        events: list[bytes] = []
        self._take_lines(lines, events)
        return events

    def _take_lines(self, lines: list[bytes], events: list[bytes]) -> None:
        for line in lines:
            if line:
                self._take(line)
            else:
                self._end_event(events)

    def _end_event(self, events: list[bytes]) -> None:
        if self._data:
            events.append(b"\n".join(self._data))
            self._data.clear()

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
