"""An engine's own /metrics, asked now, for scenarios that compare it with what they sent."""

import re
import time
from collections.abc import Callable

from hitcurve.scrape import Scrape, fetch

__all__ = ["page_text", "scrape_engine", "summed", "text_of"]

_TIMEOUT_S = 5.0
_LARGEST_PAGE = 32 * 1024 * 1024


def scrape_engine(engine: str, *, wall: Callable[[], float] = time.time) -> Scrape:
    """One reading of the page of the engine at that address."""
    return fetch(f"{engine}/metrics", _TIMEOUT_S, _LARGEST_PAGE, wall=wall)


def page_text(engine: str) -> str | None:
    """The page of the engine at that address; ``None`` where it cannot be had."""
    return text_of(scrape_engine(engine))


def text_of(page: Scrape) -> str | None:
    """What the page holds; ``None`` where there is none."""
    if page.status != 200 or page.body is None:
        return None
    return page.body.decode(errors="replace") if isinstance(page.body, bytes) else page.body


def summed(page: str, name: str) -> float | None:
    """The metric over all its labels; ``None`` where the page has no sample of it."""
    found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+-]+)", page, re.MULTILINE)
    return sum(map(float, found)) if found else None
