"""A hit-rate curve in one line of text."""

from collections.abc import Sequence

from hitcurve.reading import Interval

__all__ = ["sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
_NO_VALUE = "·"


def sparkline(intervals: Sequence[Interval], width: int = 40) -> str:
    """At most ``width`` bars from 0 to 1, each a ratio of sums over equally many intervals; ``·`` is no value."""
    if not intervals:
        return ""
    size = -(-len(intervals) // width)
    return "".join(_bar(intervals[start : start + size]) for start in range(0, len(intervals), size))


def _bar(intervals: Sequence[Interval]) -> str:
    known = [(one.queries, one.hits) for one in intervals if one.queries and one.hits is not None]
    queries = sum(queries for queries, _ in known)
    if not queries:
        return _NO_VALUE
    rate = min(sum(hits for _, hits in known) / queries, 1.0)
    return _BARS[min(int(rate * len(_BARS)), len(_BARS) - 1)]
