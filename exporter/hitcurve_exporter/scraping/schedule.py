"""When to scrape: every target at its own place in the interval, and never twice at once."""

import math

__all__ = ["next_turn", "place_in_interval"]


def place_in_interval(index: int, targets: int, interval_s: float) -> float:
    """Seconds after the start at which target ``index`` of ``targets`` has its first turn."""
    return interval_s * index / targets


def next_turn(first_s: float, interval_s: float, last_s: float, now_s: float) -> tuple[float, int]:
    """The first turn after ``last_s`` that is not over at ``now_s``, and how many turns were missed.

    Turns stand at ``first_s + k * interval_s``: a scrape that takes long moves no later one.
    """
    following = round((last_s - first_s) / interval_s) + 1
    possible = max(following, math.ceil((now_s - first_s) / interval_s - 1e-9))
    return first_s + possible * interval_s, possible - following
