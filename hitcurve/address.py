"""Addresses of engines and exporters as people write them."""

import urllib.parse

from hitcurve.errors import UsageError

__all__ = ["base_address"]


def base_address(url: str) -> str:
    """Scheme, host, port and what precedes ``/metrics``; a bare HOST:PORT is taken as http.

    UsageError for anything that is no http or https address, or has a query.
    """
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urllib.parse.urlsplit(whole)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise UsageError(f"'{url}' is not an address; write http://HOST:PORT.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/metrics')}"
