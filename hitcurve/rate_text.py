"""Rates and differences of rates as text, for tables and pages."""

__all__ = ["percent", "points"]


def percent(rate: float | None, decimals: int = 2, *, unit: str = "%", none: str = "no value") -> str:
    """A share of one as ``97.30%``; ``none`` is said where there is no value, which is never 0."""
    return none if rate is None else f"{100 * rate:.{decimals}f}{unit}"


def points(difference: float | None, *, none: str = "no value") -> str:
    """A difference of two shares of one as ``+1.25 points``."""
    return none if difference is None else f"{100 * difference:+.2f} points"
