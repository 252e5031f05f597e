"""Addresses of engines and exporters as people write them."""

import urllib.parse

from hitcurve.errors import UsageError

__all__ = ["base_address"]


def base_address(url: str) -> str:
    """Scheme, host, port and what precedes ``/metrics``; a bare HOST:PORT is taken as http.

    UsageError for anything that is no http or https address, has a query, or holds a user name or password.
    """
    whole = url if "://" in url else f"http://{url}"
    if "@" in whole.partition("://")[2].partition("/")[0]:
        raise UsageError("an address holds a user name or password; write http://HOST:PORT without them.")
    try:
        parts = urllib.parse.urlsplit(whole)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        (parts.hostname or "").encode("idna")
    except ValueError:
        usable = False
    if usable and not (parts.path.isascii() and f"{parts.netloc}{parts.path}".isprintable()):
        usable = False
    if usable and " " in f"{parts.netloc}{parts.path}":
        usable = False
    if not usable or parts.query or parts.fragment:
        raise UsageError(f"'{url}' is not an address; write http://HOST:PORT.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/metrics')}"
