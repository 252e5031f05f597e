"""A curve of rates as one line of bars."""

from hitcurve.reading import Interval
from hitcurve.replay.sparkline import sparkline


def interval(queries: float | None, hits: float | None) -> Interval:
    return Interval(0, 1, queries, hits, None)


def test_sparkline() -> None:
    rates = [interval(100, hits) for hits in (0, 12, 13, 50, 99, 100)]
    assert sparkline(rates) == "▁▁▂▅██"
    assert sparkline([interval(0, 0), interval(None, None)]) == "··"
    assert sparkline([]) == ""
    # Two a bar: 100 of 1,000, whatever the mean of ratios.
    assert sparkline([interval(900, 0), interval(100, 100)], width=1) == "▁"
