"""Two engines that show each other's counters."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, web

__all__ = ["shows_page_of"]

_OWN = "own"
_TIMEOUT = ClientTimeout(total=5)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def shows_page_of(peer: str) -> Callable[[web.Request, Handler], Coroutine[Any, Any, web.StreamResponse]]:
    """A middleware that answers /metrics with the page of the engine at ``peer``, or its own if that is gone."""

    @web.middleware
    async def swapped(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != "/metrics" or _OWN in request.query:
            return await handler(request)
        try:
            async with (
                ClientSession(timeout=_TIMEOUT) as session,
                session.get(f"{peer}/metrics?{_OWN}=1") as answer,
            ):
                return web.Response(
                    body=await answer.read(), headers={"Content-Type": answer.headers["Content-Type"]}
                )
        except (TimeoutError, ClientError, KeyError):
            return await handler(request)

    return swapped
