"""A response whose body is read as it comes, and of whose headers only the status is kept.

geventhttpclient's own response collects every header and copies the body twice; its parser and the way it gives
connections back are used as they are (geventhttpclient 2.6).
"""

from typing import Any

from geventhttpclient.response import HTTPSocketPoolResponse

__all__ = ["EventResponse"]


class EventResponse(HTTPSocketPoolResponse):  # type: ignore[misc]
    """The parser calls ``_on_…`` for what it finds."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self._pieces: list[bytearray] = []
        self._on_body = self._pieces.append
        super().__init__(*words, **options)

    def read_some(self) -> bytes:
        """What has come of the body, as soon as there is any; nothing at its end.

        OSError or HTTPParseError where the connection breaks before.
        """
        pieces = self._pieces
        while not pieces:
            if self.message_complete or self._sock is None:
                return b""
            try:
                self.feed(self._sock.recv(self.block_size))
            except BaseException:
                self.release()
                raise
        data = b"".join(pieces)
        pieces.clear()
        return data

    def _on_header_field(self, string: str) -> None:
        pass

    def _on_header_value(self, string: str) -> None:
        pass
