"""Whether an engine gets an estimate of its hit rate over pool sizes."""

import logging

from hitcurve_engine.pool_curve import PoolCurve
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.settings import Settings

__all__ = ["wanted_curve"]

_log = logging.getLogger("hitcurve.engine")


def wanted_curve(shape: CacheShape, settings: Settings) -> PoolCurve | None:
    """The estimate, where it is asked for and the engine has one kind of blocks."""
    if not settings.pool_curve:
        return None
    if shape.groups > 1 or not shape.full_attention:
        _log.warning("hitcurve: no curve over pool sizes: this model does not keep all blocks of a prompt alike")
        return None
    return PoolCurve(shape.block_size, shape.pool_blocks, settings.pool_curve_keys)
