"""Plain HTTP matters: JSON bodies, server-sent events, errors, request ids."""

import json
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from hitcurve_simulator.server.api_error import ApiError
from hitcurve_simulator.server.request_body import RequestBody

__all__ = ["errors_as_json", "json_reply", "read_body", "request_id", "stream_reply"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger(__name__)


def json_reply(values: dict[str, Any], status: int = 200) -> web.Response:
    """A compact JSON body."""
    return web.Response(body=_compact(values), status=status, content_type="application/json")


async def read_body(request: web.Request) -> RequestBody:
    """The JSON object of a request; ApiError (400) where there is none."""
    return RequestBody.parse(await request.read(), request.content_type)


def request_id(request: web.Request, body: RequestBody, prefix: str) -> str:
    """Id of an answer: from the body, the X-Request-Id header, or made up."""
    own = body.text("request_id") or request.headers.get("X-Request-Id") or uuid.uuid4().hex[:16]
    return f"{prefix}-{own}"


async def stream_reply(request: web.Request, chunks: AsyncIterator[dict[str, Any]]) -> web.StreamResponse:
    """Send chunks as server-sent events. Headers leave at once; a late ApiError becomes an event of its own."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    try:
        async for chunk in chunks:
            await response.write(_event(_compact(chunk)))
    except ApiError as error:
        await response.write(_event(_compact(error.body())))
    await response.write(_event(b"[DONE]"))
    await response.write_eof()
    return response


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refusals in OpenAI's form; unknown paths and methods in the form of vLLM's web framework."""
    try:
        return await handler(request)
    except ConnectionError:
        return web.Response()  # the client left while it was written to; nobody reads this
    except ApiError as error:
        return json_reply(error.body(), error.status)
    except web.HTTPException as error:
        return json_reply({"detail": error.reason}, error.status)
    except Exception:
        logger.exception("%s %s failed", request.method, request.path)
        return json_reply(ApiError(500, "InternalServerError", "Internal server error").body(), 500)


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _compact(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
