"""What is said to do about a page that could not be read."""

import pytest

from hitcurve.unreadable import cure_of


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("HTTP 401", "it asks for a key"),
        ("HTTP 403", "it asks for a key"),
        ("HTTP 302", "it redirects"),
        ("HTTP 503", "look into its log"),
        ("HTTP 404", "check the address"),
        ("no answer within 3 s", "allow it more time"),
        ("no complete answer within 1 s", "allow it more time"),
        ("The page is that of a hitcurve exporter, not of an engine", "its page at / lists them"),
        ("connection refused", "check the address"),
        ("The page has no prefix-cache counters (looked for a, b)", "--disable-log-stats"),
    ],
)
def test_a_cure_fits_the_failure(failure: str, words: str) -> None:
    assert words in cure_of(failure)
