"""A TCP proxy that spoils what passes: latency, jitter, bandwidth, reset, black hole, a stream that is cut."""

import asyncio
import contextlib
import http.client
import random
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET
from urllib.parse import urlsplit

__all__ = ["FaultProxy", "Weather", "fault_proxy"]

_CHUNK_BYTES = 4096
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_START_S = 5.0
_BEGIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to bytes on their way; the default lets them pass."""

    latency_s: float = 0.0
    """Added once to each piece of an answer."""
    jitter_s: float = 0.0
    """Up to so much more, drawn for each piece."""
    bytes_per_s: float | None = None
    black_hole: bool = False
    """Connections are taken, and nothing ever comes back."""
    reset: bool = False
    """Connections are reset as soon as a request was sent."""
    cut_after_bytes: int | None = None
    """An answer is cut off after so many bytes, by a reset."""


class FaultProxy:
    """Listens on this machine and passes connections on to ``upstream`` (a URL), through ``weather``.

    It speaks plain HTTP to clients also where ``upstream`` is https.
    """

    def __init__(self, upstream: str, randomness: random.Random) -> None:
        address = urlsplit(upstream)
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        self._host = address.hostname or "127.0.0.1"
        self._port = address.port or (http.client.HTTPS_PORT if self._tls else http.client.HTTP_PORT)
        self._path = address.path
        self._random = randomness
        self._open: set[asyncio.Task[None]] = set()
        self.weather = Weather()
        """Read anew for every piece, so it may change while connections are open."""
        self.url = ""
        """Its address, with the path of ``upstream``."""

    async def serve(self, ready: threading.Event, ending: asyncio.Event) -> None:
        """Serve until ``ending``; ``url`` is known once ``ready`` is set."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{self._path}"
        ready.set()
        await ending.wait()
        # What was accepted a moment ago must begin first: Python 3.11 fails to close it otherwise.
        await asyncio.sleep(_BEGIN_S)
        server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Python 3.11 complains of a connection's task that ends as cancelled.
            pass
        finally:
            self._open.discard(task)
            await _closed(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.weather.black_hole or self.weather.reset:
            await self._spoil(reader, writer)
            return
        up_reader, up_writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        there = asyncio.create_task(self._there(reader, up_writer))
        try:
            await self._back(up_reader, writer)
        finally:
            there.cancel()
            await _closed(up_writer)

    async def _spoil(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(_CHUNK_BYTES)
        while self.weather.black_hole:
            await asyncio.sleep(0.05)
        _reset(writer)

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                writer.write(data)
                await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        while data := await reader.read(_CHUNK_BYTES):
            weather = self.weather
            await asyncio.sleep(weather.latency_s + self._random.random() * weather.jitter_s)
            if weather.bytes_per_s:
                await asyncio.sleep(len(data) / weather.bytes_per_s)
            while self.weather.black_hole:
                await asyncio.sleep(0.05)
            if weather.cut_after_bytes is not None and passed + len(data) > weather.cut_after_bytes:
                writer.write(data[: max(0, weather.cut_after_bytes - passed)])
                await writer.drain()
                _reset(writer)
                return
            passed += len(data)
            writer.write(data)
            await writer.drain()


@contextmanager
def fault_proxy(upstream: str, randomness: random.Random) -> Iterator[FaultProxy]:
    """A proxy in a thread of its own; every connection is closed when the block is left."""
    proxy = FaultProxy(upstream, randomness)
    ready, ending = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    def run() -> None:
        try:
            loop.run_until_complete(proxy.serve(ready, ending))
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="fault proxy", daemon=True)
    thread.start()
    if not ready.wait(_START_S):
        raise OSError("the fault proxy did not begin to listen")
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(SOL_SOCKET, SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
