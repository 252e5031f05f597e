"""What to do about a page that could not be read."""

import re
from typing import Final

__all__ = ["cure_of"]

_CURES: Final = (
    (
        re.compile(r"^HTTP 40[13]\b"),
        "it asks for a key: let an exporter that has one read it, and ask that",
    ),
    (re.compile(r"^HTTP 30[12378]\b"), "it redirects: name the address it leads to"),
    (re.compile(r"^HTTP 5\d\d\b"), "the server itself failed: look into its log"),
    (re.compile(r"no prefix-cache counters"), "name an engine, and keep --disable-log-stats away from vLLM"),
    (re.compile(r"that of a hitcurve exporter"), "its page at / lists them"),
    (
        re.compile(r"no (complete )?answer within"),
        "see whether it is overloaded, or allow it more time (--timeout, or 'timeout' in the exporter's file)",
    ),
)


def cure_of(failure: str) -> str:
    """What helps against a failed reading, as the end of a sentence; ``failure`` is a reading's own words."""
    return next((cure for pattern, cure in _CURES if pattern.search(failure)), "check the address")
