"""Server-sent events: from bytes, cut anywhere, to the data of each event.

Follows the event stream interpretation of the WHATWG HTML standard (section 9.2.6): lines end with LF, CRLF
or CR, a line that begins with a colon is a comment, one space after ``data:`` is dropped, the ``data`` lines of
one event are joined with LF, and a blank line ends the event. A byte order mark before the first line is dropped.
"""

import re

__all__ = ["EventReader"]

_LINE_END = re.compile(rb"\r\n|\r|\n")
_MARK = b"\xef\xbb\xbf"
_ERROR = b"error"


class EventReader:
    """Collects bytes and gives back the data of every event they complete."""

    def __init__(self) -> None:
        self.between_events = True
        """Whether the next byte begins an event."""
        self.error: bytes | None = None
        """Data of the first event of the type ``error``, which may have none."""
        self._line = b""
        self._kind = b""
        self._data: list[bytes] = []
        self._begun = False
        self._skip_newline = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes of the stream; the data of the events that end in them, in order."""
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        buffer = self._line + chunk
        self._skip_newline = buffer.endswith(b"\r")
        lines = _LINE_END.split(buffer) if b"\r" in buffer else buffer.split(b"\n")
        self._line = lines.pop()
        events: list[bytes] = []
        self._take_lines(lines, events)
        self.between_events = not (self._line or self._data or self._kind or self._skip_newline)
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

    def _take_lines(self, lines: list[bytes], events: list[bytes]) -> None:
        for line in lines:
            if line:
                self._take(line)
            else:
                self._end_event(events)

    def _end_event(self, events: list[bytes]) -> None:
        if self._kind == _ERROR and self.error is None:
            self.error = b"\n".join(self._data)
        self._kind = b""
        if self._data:
            events.append(b"\n".join(self._data))
            self._data.clear()

    def _take(self, line: bytes) -> None:
        if not self._begun:
            self._begun, line = True, line.removeprefix(_MARK)
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._kind = value.removeprefix(b" ")
