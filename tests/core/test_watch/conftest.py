"""Shared by the tests of ``watch``."""

from collections.abc import Callable

import pytest


@pytest.fixture
def one_line() -> Callable[[str], bool]:
    """Whether a text is one line that ends like a sentence."""
    return lambda text: "\n" not in text and text.endswith(".")
