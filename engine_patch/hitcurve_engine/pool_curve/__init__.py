"""The live hit-rate curve: what the hit rate would be, had the pool another size."""

from hitcurve_engine.pool_curve.curve import PoolCurve, PoolCurveSums
from hitcurve_engine.pool_curve.sizes import POOL_SIZES, UNLIMITED

__all__ = ["POOL_SIZES", "UNLIMITED", "PoolCurve", "PoolCurveSums"]
