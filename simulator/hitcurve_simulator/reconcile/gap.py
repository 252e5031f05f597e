"""One row: ceiling, prediction and measurement of some traffic, and where the missing tokens went."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hitcurve_simulator.reconcile.expected import Expected

__all__ = ["FOREIGN_SHARE", "GAPS", "Row", "row_of"]

FOREIGN_SHARE: Final = 0.001
"""Share of the log's tokens by which the measured ones may differ, and still be of the same traffic."""

GAPS: dict[str, str] = {
    "cold_start": "first sight of a prefix: nobody had sent these tokens before",
    "rounding_and_last_token": "partial last blocks, and the last token of a prompt with its block",
    "isolation": "the same tokens are cached under another adapter or salt",
    "eviction": "an unlimited pool would have them, this one does not, one request at a time",
    "concurrency": "what requests at once change: room they hold together (below zero: what they gain)",
    "unknown": "prediction minus measurement",
}
"""What a gap means. Measurement and all gaps add up to the query tokens."""


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens of some requests; None is unknown. ``adapter`` and ``tenant`` are None for all of them."""

    engine: str | None
    adapter: str | None
    tenant: str | None
    requests: int
    query_tokens: int | None
    ceiling: int | None
    prediction: int | None
    measured_queries: float | None
    measurement: float | None
    measured_by: str | None
    """``counters`` of the engine or ``usage`` in the log."""
    gaps: dict[str, float | None]

    @property
    def ceiling_rate(self) -> float | None:
        return _ratio(self.ceiling, self.query_tokens)

    @property
    def prediction_rate(self) -> float | None:
        return _ratio(self.prediction, self.query_tokens)

    @property
    def measured_rate(self) -> float | None:
        return _ratio(self.measurement, self.measured_queries)


def row_of(
    names: tuple[str | None, str | None, str | None],
    requests: int,
    expected: Sequence[Expected] | None,
    measured: tuple[float | None, float | None, str | None],
) -> Row:
    """The row of (engine, adapter, tenant). ``measured``: query tokens, hit tokens, by what.

    What was measured of other traffic than the log's leaves no unknown gap: the two cannot be subtracted.
    """
    queries, hits, by = measured
    if expected is None:
        return Row(*names, requests, None, None, None, queries, hits, by, dict.fromkeys(GAPS))
    ceiling = sum(one.ceiling for one in expected)
    alone = _sum([one.alone for one in expected])
    predicted = _sum([one.predicted for one in expected])
    total = sum(one.query for one in expected)
    gaps: dict[str, float | None] = {
        "cold_start": sum(one.compulsory for one in expected),
        "rounding_and_last_token": sum(one.tail for one in expected),
        "isolation": sum(one.isolated for one in expected),
        "eviction": _difference(ceiling, alone),
        "concurrency": _difference(alone, predicted),
        "unknown": _difference(predicted, hits) if _is_near(queries, total) else None,
    }
    return Row(*names, requests, total, ceiling, predicted, queries, hits, by, gaps)


def _is_near(measured: float | None, logged: int) -> bool:
    return measured is not None and abs(measured - logged) <= FOREIGN_SHARE * logged


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
