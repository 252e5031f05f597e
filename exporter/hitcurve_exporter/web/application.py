"""The exporter's HTTP routes."""

import asyncio
import gzip
import json
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hitcurve.errors import HitcurveError
from hitcurve_exporter.configuration.durations import format_duration, parse_duration
from hitcurve_exporter.page.document import PageFormat
from hitcurve_exporter.page.negotiation import format_for
from hitcurve_exporter.scraping.curve_history import KEPT_S
from hitcurve_exporter.web.basic_auth import PasswordCheck, password_middleware
from hitcurve_exporter.web.curve_api import NoSuchEngine
from hitcurve_exporter.web.foreign import foreign_guard, is_loopback
from hitcurve_exporter.web.marks import BadMark, parse_mark
from hitcurve_exporter.web.site import Site

__all__ = ["application"]

_MOST_REQUEST_BYTES: Final = 64 * 1024
_WORTH_COMPRESSING_BYTES: Final = 1_024
_GZIP_LEVEL: Final = 1
"""Level 9 takes 13 times as long for the same size on this kind of text."""


def application(
    site: Site,
    passwords: PasswordCheck | None = None,
    headers: Sequence[tuple[str, str]] = (),
    middlewares: Sequence[Middleware] = (),
) -> web.Application:
    """The routes of DESIGN: metrics, landing page, API, health, readiness, reload, marks.

    ``passwords`` guard every one of them, also those that do not exist; ``headers`` are added to every answer;
    ``middlewares`` stand around it all.
    """
    routes = _Routes(site)
    guards = [] if passwords is None else [password_middleware(passwords)]
    app = web.Application(
        client_max_size=_MOST_REQUEST_BYTES, middlewares=[*middlewares, foreign_guard(site), *guards]
    )

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    app.on_response_prepare.append(add_headers)
    app.add_routes(
        [
            web.get("/", routes.landing),
            web.get("/metrics", routes.metrics),
            web.get("/api/v1/engines", routes.engines),
            web.get("/api/v1/engines/{id}/curve", routes.curve),
            web.post("/api/v1/marks", _json_only(routes.marks)),
            web.get("/-/healthy", routes.healthy),
            web.get("/-/ready", routes.ready),
            web.post("/-/reload", routes.reload),
        ]
    )
    return app


class _Routes:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def landing(self, request: web.Request) -> web.Response:
        return web.Response(text=self._site.landing_page(), content_type="text/html")

    async def metrics(self, request: web.Request) -> web.Response:
        form = format_for(request.headers.get("Accept", ""))
        return await _page_response(request, self._site.metrics(form), form)

    async def engines(self, request: web.Request) -> web.Response:
        return web.json_response(self._site.engines())

    async def curve(self, request: web.Request) -> web.Response:
        try:
            window_s = parse_duration(request.query.get("window", "1h"))
        except ValueError:
            return _json_error("'window' must be a duration such as 1h.", 400)
        if window_s > KEPT_S:
            return _json_error(f"'window' must be at most {format_duration(KEPT_S)}, which is what is kept.", 400)
        try:
            return web.json_response(self._site.curve(request.match_info["id"], window_s))
        except NoSuchEngine as error:
            return _json_error(str(error), 404)

    async def healthy(self, request: web.Request) -> web.Response:
        return web.Response(text="hitcurve exporter is healthy.\n")

    async def ready(self, request: web.Request) -> web.Response:
        if self._site.ready:
            return web.Response(text="hitcurve exporter is ready.\n")
        return web.Response(text="Not every target was scraped yet.\n", status=503)

    async def reload(self, request: web.Request) -> web.Response:
        if not is_loopback(request.remote):
            return web.Response(text="A reload is accepted from this machine only; or send SIGHUP.\n", status=403)
        try:
            await self._site.reload()
        except HitcurveError as error:
            return web.Response(text=f"The old configuration stays: {error}\n", status=400)
        return web.Response(text="The configuration was read again.\n")

    async def marks(self, request: web.Request) -> web.Response:
        if not (self._site.allow_marks or is_loopback(request.remote)):
            sentence = "Marks are accepted from this machine only; 'allow_marks: true' lets others in."
            return _json_error(sentence, 403)
        try:
            mark = parse_mark(await request.read(), self._site.now_s())
        except BadMark as error:
            return _json_error(str(error), 400)
        marked = await self._site.mark(mark)
        if marked == 0:
            return _json_error("No target or engine of that name is watched; see /api/v1/engines.", 404)
        return web.json_response({"marked_targets": marked, "kind": mark.kind, "at_s": mark.at_s})


def _json_only(handler: Handler) -> Handler:
    """A browser cannot send JSON to another origin without asking first, and nobody answers that question."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        if request.content_type != "application/json":
            return _json_error("Send Content-Type: application/json.", 415)
        if "Content-Encoding" in request.headers:
            return _json_error("Send the body uncompressed.", 415)
        return await handler(request)

    return guarded


async def _page_response(request: web.Request, body: bytes, form: PageFormat) -> web.Response:
    headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
    if len(body) >= _WORTH_COMPRESSING_BYTES and "gzip" in request.headers.get("Accept-Encoding", "").lower():
        body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


def _json_error(sentence: str, status: int) -> web.Response:
    return web.Response(text=json.dumps({"error": sentence}), status=status, content_type="application/json")
