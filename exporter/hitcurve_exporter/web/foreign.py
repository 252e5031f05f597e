"""Refusing what pages of other sites send through somebody's browser.

A browser on this machine reaches the loopback interface, and a site whose name is made to lead there (DNS
rebinding) passes for the exporter itself. Its name is still in ``Host``; an address cannot be made to lead
elsewhere.
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from hitcurve_exporter.web.site import Site

__all__ = ["foreign_guard", "is_loopback"]

_READING: Final = (hdrs.METH_GET, hdrs.METH_HEAD)
_OTHER_SITES: Final = ("cross-site", "same-site")


def foreign_guard(site: Site) -> Middleware:
    """403 for a foreign ``Host`` where only this machine is meant, and for changes that another site orders."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        changing = request.method not in _READING
        host = request.headers.get(hdrs.HOST, "")
        meant_here = site.listens_on_loopback or (changing and is_loopback(request.remote))
        if meant_here and not _is_ours(host, site.allowed_hosts):
            return _refused(f"The host name {_name(host)[:80]!r} is not known here; add it to 'allowed_hosts'.")
        if changing and _is_of_another_site(request, host):
            return _refused("Requests of other sites are refused.")
        return await handler(request)

    return guard


def is_loopback(address: str | None) -> bool:
    """Whether an IP address is this machine's own."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _is_ours(host: str, allowed: frozenset[str]) -> bool:
    """No browser leaves the host out, so a request without one comes from none."""
    name = _name(host)
    if not host or name in allowed or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_of_another_site(request: web.Request, host: str) -> bool:
    if request.headers.get("Sec-Fetch-Site", "") in _OTHER_SITES:
        return True
    origin = request.headers.get(hdrs.ORIGIN)
    return origin is not None and origin.partition("://")[2].lower() != host.lower()


def _refused(sentence: str) -> web.Response:
    return web.Response(text=f"{sentence}\n", status=403)
