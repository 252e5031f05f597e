"""What a check says: findings with evidence and cure, and what could not be judged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from hitcurve.doctor.observed import Engine, Replica

__all__ = ["Check", "Finding", "Fleet", "NotJudged", "Said", "Severity"]

Severity = Literal["error", "warning", "note"]
"""``error``: the cache cannot work, or the engine is open to others. ``warning``: it works worse than it could.
``note``: nothing is wrong, but whoever reads numbers should know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. ``where`` names replicas, ``message`` and ``cure`` are a sentence each."""

    where: tuple[str, ...]
    message: str
    cure: str
    evidence: Mapping[str, float | str | None] = field(default_factory=dict)
    severity: Severity = "warning"


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A check that lacks what it needs: where, and what is missing. Never the same as nothing found."""

    where: tuple[str, ...]
    missing: str
    essential: bool = False
    """Whether the whole verdict is ``no_data`` without it."""


Said = Finding | NotJudged


@dataclass(frozen=True, slots=True)
class Fleet:
    """What was seen of all replicas, and what a connected Prometheus holds (metric names, ``None``: not asked)."""

    replicas: Sequence[Replica]
    prometheus_names: frozenset[str] | None = None

    def engines(self) -> Iterator[tuple[Replica, Engine]]:
        """Every engine of every replica whose page was read."""
        for replica in self.replicas:
            for engine in replica.engines:
                yield replica, engine


@dataclass(frozen=True, slots=True)
class Check:
    """One question. ``asks`` is what it asks, ``judge`` answers it from what was seen, without the network."""

    id: str
    asks: str
    judge: Callable[[Fleet], Iterator[Said]]

    @property
    def page(self) -> str:
        """Where the check is explained."""
        return f"{_PAGE}#{self.id}"


_PAGE: Final = "docs/doctor.md"
