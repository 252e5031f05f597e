"""Everything the doctor asks, in the order in which it is shown."""

from typing import Final

from hitcurve.doctor.checks.adapters import ADAPTERS
from hitcurve.doctor.checks.agreement import AGREEMENT
from hitcurve.doctor.checks.caching import CACHING
from hitcurve.doctor.checks.counting import COUNTING
from hitcurve.doctor.checks.exposure import EXPOSURE
from hitcurve.doctor.checks.patch import PATCH
from hitcurve.doctor.checks.pool import POOL
from hitcurve.doctor.findings import Check

__all__ = ["CHECKS"]

CHECKS: Final[tuple[Check, ...]] = (*CACHING, *POOL, *ADAPTERS, *AGREEMENT, *COUNTING, *EXPOSURE, *PATCH)
