"""What differs between vLLM versions in the rules of one full-attention group.

Each field names the release in which the behaviour changed; ``docs/engines.md`` gives the sources.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["DEFAULT_VERSION", "FreeRule", "StatisticsUnit", "VllmRules", "rules_of_version"]

DEFAULT_VERSION = "0.32.0"
OLDEST = (0, 8, 0)
NEWEST = (0, 33)
"""The last release whose source was read; what comes after it may follow other rules."""

FreeRule = Literal["append", "unhashed_first"]
StatisticsUnit = Literal["tokens", "blocks"]


@dataclass(frozen=True, slots=True)
class VllmRules:
    """The switches that a version sets."""

    version: str = DEFAULT_VERSION
    free_rule: FreeRule = "unhashed_first"
    """``append``: freed blocks go to the tail of the free queue (up to 0.23). ``unhashed_first``: blocks
    without a hash go to its head, hashed ones to its tail (since 0.24)."""
    statistics_unit: StatisticsUnit = "tokens"
    """Blocks up to 0.8.5, tokens since 0.9.0."""
    counted_at_admission: bool = True
    """Since 0.27 a lookup counts once its request got its blocks; before, each attempt counted."""
    preempted_apart: bool = True
    """Since 0.11.1 lookups of resumed requests are kept out of the exported counters."""
    reserve_whole_prompt: bool = True
    """Admit a request only when its whole prompt fits, not just the first chunk."""
    hashed_when_appended: bool = True
    """Since 0.10.1 generated tokens are hashed when they are appended; before, when their block is registered,
    so that a resumed request does not find a block that it filled and did not compute."""
    usage_without_null_block: bool = True
    """Since 0.10.2 the reserved null block is not part of the pool that KV usage is a share of."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers; it also decides the form of extra keys (``hitcurve.hashing``)."""
        return _parsed(self.version)


def rules_of_version(version: str) -> VllmRules:
    """The rules of a vLLM release such as ``0.32.0`` or ``0.8.5``.

    Raises ValueError where the text is no version, older than 0.8, or newer than the last one known.
    """
    number = _parsed(version)
    if number < OLDEST:
        raise ValueError(f"no rules for vLLM {version}: the V1 cache rules start with 0.8")
    if number[:2] > NEWEST:
        newest = ".".join(map(str, NEWEST))
        raise ValueError(f"no rules for vLLM {version}: the newest known are those of {newest}")
    return VllmRules(
        version=version,
        free_rule="unhashed_first" if number >= (0, 24) else "append",
        statistics_unit="tokens" if number >= (0, 9) else "blocks",
        counted_at_admission=number >= (0, 27),
        preempted_apart=number >= (0, 11, 1),
        reserve_whole_prompt=number >= (0, 19),
        hashed_when_appended=number >= (0, 10, 1),
        usage_without_null_block=number >= (0, 10, 2),
    )


def _parsed(version: str) -> tuple[int, ...]:
    parts = version.strip().removeprefix("v").split(".")
    if not 2 <= len(parts) <= 4 or not all(part.isdigit() for part in parts[:3]):
        raise ValueError(f"'{version}' is no vLLM version such as {DEFAULT_VERSION}")
    return tuple(int(part) for part in parts[:3])
