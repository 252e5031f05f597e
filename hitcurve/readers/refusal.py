"""Why a page is not taken."""

from hitcurve.errors import HitcurveError

__all__ = ["PageRefused"]


class PageRefused(HitcurveError):
    """The page cannot be read truthfully; ``reason`` is one sentence that says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
