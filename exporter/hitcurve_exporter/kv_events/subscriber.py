"""One publisher followed over its lifetime: messages, lost connections, replays."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from hitcurve_exporter.clock import Clock
from hitcurve_exporter.configuration.kv_events_records import KvPublisher
from hitcurve_exporter.kv_events.block_table import BlockTable, LiveBlocks
from hitcurve_exporter.kv_events.replay import Replay
from hitcurve_exporter.kv_events.stream import KvStream

__all__ = ["KvSubscriber", "OnReset"]

OnReset = Callable[[float], Awaitable[None]]
"""Told that the prefix cache was reset, with the time in Unix seconds at which that was heard."""

_LOG: Final = logging.getLogger("hitcurve.exporter")
_RECONNECT_MS: Final = 200
_RECONNECT_AT_MOST_MS: Final = 5_000
_HEARTBEAT_MS: Final = 5_000


class KvSubscriber:
    """Follows from ``start`` to ``close``; needs a running event loop."""

    def __init__(
        self,
        context: zmq.asyncio.Context,
        publisher: KvPublisher,
        clock: Clock,
        most_bytes: int,
        on_reset: OnReset,
    ) -> None:
        self.engine = publisher.engine
        self.stream = KvStream(BlockTable())
        self.connected = False
        self._publisher = publisher
        self._context = context
        self._clock = clock
        self._most_bytes = most_bytes
        self._on_reset = on_reset
        endpoint = publisher.replay_endpoint
        self._replay = None if endpoint is None else Replay(context, endpoint, most_bytes)
        self._one_at_a_time = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def complete(self) -> bool:
        """Whether what the cache holds is known for certain."""
        return self.connected and not self.stream.doubtful and self.stream.table.complete

    @property
    def live(self) -> Mapping[str, LiveBlocks]:
        """What can be found by tier, as far as it is known for certain."""
        return self.stream.table.live if self.connected and not self.stream.doubtful else {}

    def start(self) -> None:
        """Connect, and go on until closed whatever the other side does."""
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, self._most_bytes)
        socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_AT_MOST_MS)
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        socket.setsockopt(zmq.IPV6, self._publisher.endpoint.startswith("tcp://["))
        socket.subscribe(self._publisher.topic)
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        socket.connect(self._publisher.endpoint)
        self._tasks = [
            asyncio.create_task(self._follow(socket), name=f"KV events of {self._publisher.endpoint}"),
            asyncio.create_task(self._watch_connection(socket, monitor)),
        ]

    async def close(self) -> None:
        """End; the sockets are closed by their tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, socket: zmq.asyncio.Socket) -> None:
        try:
            while True:
                frames = await socket.recv_multipart()
                async with self._one_at_a_time:
                    await self._take(frames)
        finally:
            socket.disable_monitor()
            socket.close()

    async def _take(self, frames: list[bytes]) -> None:
        if len(frames) != 3 or len(frames[1]) != 8:
            self.stream.counts.refused_messages += 1
            return
        number, payload = int.from_bytes(frames[1], "big"), frames[2]
        replayed = await self._replayed(self.stream.need(number))
        await self._tell(self.stream.take(number, payload, self._clock.wall(), replayed))

    async def _watch_connection(self, socket: zmq.asyncio.Socket, monitor: zmq.asyncio.Socket) -> None:
        while True:
            event = (await recv_monitor_message(monitor))["event"]
            if event == zmq.EVENT_DISCONNECTED:
                self.connected, self.stream.doubtful = False, True
                _LOG.warning("%s: the publisher of KV events is gone", self._publisher.endpoint)
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connected = True
                _LOG.info("%s: KV events are followed", self._publisher.endpoint)
                async with self._one_at_a_time:
                    await self._catch_up()

    async def _catch_up(self) -> None:
        """On a new connection: what happened before it, where a replay is offered."""
        replayed = await self._replayed(self.stream.need(None))
        if replayed is not None:
            await self._tell(self.stream.catch_up(replayed, self._clock.wall()))

    async def _replayed(self, number: int | None) -> list[tuple[int, bytes]] | None:
        if number is None or self._replay is None:
            return None
        found = await self._replay.since(number)
        if found is not None and number > 0 and not self.stream.recognises(found):
            # Another process: its history begins at 0.
            found = await self._replay.since(0)
        return found

    async def _tell(self, reset: bool) -> None:
        if reset:
            await self._on_reset(self._clock.wall())
