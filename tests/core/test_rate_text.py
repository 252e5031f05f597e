"""Rates as text: no value is never 0."""

import pytest

from hitcurve.rate_text import percent, points


@pytest.mark.parametrize(
    ("rate", "said"), [(0.973, "97.30%"), (0.0, "0.00%"), (1.0, "100.00%"), (None, "no value"), (0.00005, "0.01%")]
)
def test_a_rate(rate: float | None, said: str) -> None:
    assert percent(rate) == said


def test_a_rate_in_other_words() -> None:
    assert percent(0.25, 1, unit=" %") == "25.0 %"
    assert percent(None, 1, unit=" %", none="unknown") == "unknown"
    assert percent(0.123456, 4) == "12.3456%"


def test_a_difference() -> None:
    assert [points(value) for value in (0.0125, -0.5, 0.0, None)] == [
        *("+1.25 points", "-50.00 points", "+0.00 points"),
        "no value",
    ]
    assert points(None, none="–") == "–"
