"""When a rate counts as low: almost nothing, or far below what the traffic allows."""

from hitcurve.curve.batch import Sum
from hitcurve.curve.config import CurveConfig

__all__ = ["LowRate"]

_SURE_ERRORS = 2.0


class LowRate:
    """The rules of ``low``. ``error`` is the standard error of the rate of the sum it goes with."""

    def __init__(self, config: CurveConfig) -> None:
        self._config = config

    def warmed(self, since: Sum) -> bool:
        """There was traffic enough, and time, for a cache to warm."""
        config = self._config
        return since.requests >= config.low_after_requests and since.to_s - since.from_s >= config.low_after_s

    def almost_nothing(self, level: Sum, error: float) -> bool:
        return level.rate is not None and level.rate + error <= self._config.low_rate

    def below_ceiling(self, level: Sum, error: float) -> bool:
        config = self._config
        if config.ceiling is None or level.rate is None:
            return False
        return level.rate + _SURE_ERRORS * error < config.ceiling_share * config.ceiling

    def left(self, recent: Sum, error: float) -> bool:
        """The rate is proven to have risen clear of all that is low."""
        config = self._config
        floor = config.low_rate
        if config.ceiling is not None:
            floor = max(floor, config.ceiling_share * config.ceiling)
        return recent.rate is not None and recent.rate - _SURE_ERRORS * error > floor + config.low_exit
