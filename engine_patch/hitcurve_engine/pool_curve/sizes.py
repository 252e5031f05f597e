"""The pool sizes of the curve, and the names that metrics give them."""

from typing import Final

__all__ = ["POOL_SIZES", "RATIOS", "UNLIMITED"]

RATIOS: Final = (0.5, 1.0, 1.5, 2.0, 4.0)
"""Sizes as multiples of the present pool, rising."""
UNLIMITED: Final = "unlimited"
POOL_SIZES: Final = (*(f"{ratio:g}x" for ratio in RATIOS), UNLIMITED)
"""Their names, in the same order; the last one never evicts."""
