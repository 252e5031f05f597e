"""Answers that are being made or sent, so that the end of the exporter can wait for them.

aiohttp's own shutdown waits for handlers and then closes; what a slow reader has not taken by then is lost.
"""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

__all__ = ["AnswersUnderWay"]

_LOOK_AGAIN_S: Final = 0.02


class AnswersUnderWay:
    """Counts requests that are being handled; what was written is known to their connections."""

    def __init__(self) -> None:
        self._handled = 0

    @property
    def middleware(self) -> Middleware:
        """Has to be around all others."""

        @web.middleware
        async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._handled += 1
            try:
                return await handler(request)
            finally:
                self._handled -= 1

        return counted

    async def finish(self, runner: web.AppRunner, longest_s: float) -> None:
        """Wait until nothing is under way any more, or ``longest_s`` seconds."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + longest_s
        # A request that is just being answered writes when the loop turns once more.
        await asyncio.sleep(0)
        while (self._handled or _unsent(runner)) and loop.time() < until_s:
            await asyncio.sleep(_LOOK_AGAIN_S)


def _unsent(runner: web.AppRunner) -> bool:
    connections = [] if runner.server is None else runner.server.connections
    return any(one.transport is not None and one.transport.get_write_buffer_size() for one in connections)
