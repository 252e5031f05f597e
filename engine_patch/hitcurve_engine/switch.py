"""One switch for all hooks of a process: an own error turns the patch off, with one line in the log."""

import logging

__all__ = ["Switch"]

_log = logging.getLogger("hitcurve.engine")


class Switch:
    """``active`` is read by every hook before it does anything besides calling the original."""

    __slots__ = ("active", "errors", "off_reason")

    def __init__(self) -> None:
        self.active = True
        self.off_reason: str | None = None
        self.errors: dict[str, int] = {}

    def fail(self, place: str, error: Exception) -> None:
        """An own error in a hook: count it and turn everything off. Only the first one is logged."""
        self.count(place)
        self.turn_off(f"{place}: {type(error).__name__}: {error}")

    def turn_off(self, reason: str) -> None:
        """From now on every hook only calls the original."""
        if self.active:
            self.active = False
            self.off_reason = reason
            _log.warning("hitcurve: the engine patch is off, the engine is not affected (%s)", reason)

    def count(self, place: str) -> int:
        """Count an error that turns nothing off; how many there were at this place."""
        number = self.errors[place] = self.errors.get(place, 0) + 1
        return number

    def note(self, place: str, error: Exception) -> int:
        """Count an error, and log the first one of a place."""
        number = self.count(place)
        if number == 1:
            _log.warning(
                "hitcurve: %s failed (%s: %s); later ones are only counted", place, type(error).__name__, error
            )
        return number
