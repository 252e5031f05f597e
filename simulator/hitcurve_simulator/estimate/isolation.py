"""What separating traffic costs: the same requests, kept apart by other things than they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve_of
from hitcurve_simulator.estimate.prefix_hashes import keyed, mixed
from hitcurve_simulator.traces import TraceRow

__all__ = ["SPLITS", "Variant", "group_names", "isolation_variants"]

SPLITS: dict[str, Callable[[TraceRow], str | None]] = {
    "adapter": lambda row: row.request.adapter,
    "salt": lambda row: row.request.cache_salt,
    "tenant": lambda row: row.tenant,
    "session": lambda row: row.session,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """The curve where blocks are kept apart by ``isolated_by`` (names of ``SPLITS``)."""

    isolated_by: tuple[str, ...]
    curve: HitCurve
    as_it_is: bool


def isolation_variants(accesses: Accesses, rows: Sequence[TraceRow]) -> list[Variant]:
    """As it is, without any isolation, with each kind alone, and with tenants kept apart as well.

    Kinds that tell no two requests apart are left out.
    """
    kinds = [kind for kind in ("adapter", "salt", "tenant") if len(set(map(SPLITS[kind], rows))) > 1]
    present = tuple(kind for kind in kinds if kind != "tenant")
    wanted: list[tuple[str, ...]] = [present, ()]
    wanted += [(kind,) for kind in present if (kind,) not in wanted]
    if "tenant" in kinds:
        wanted.append((*present, "tenant"))
    unique = list(dict.fromkeys(wanted))
    if len(unique) == 1:
        return []
    return [Variant(by, hit_curve_of(_kept_apart(accesses, rows, by)), by == present) for by in unique]


def group_names(rows: Sequence[TraceRow], by: str) -> list[str]:
    """The group of each row, for a kind of ``SPLITS``; rows without a value are ``(none)``."""
    value_of = SPLITS[by]
    return [value if (value := value_of(row)) is not None else "(none)" for row in rows]


def _kept_apart(accesses: Accesses, rows: Sequence[TraceRow], by: tuple[str, ...]) -> Accesses:
    if not by:
        return accesses.with_keys(accesses.names)
    known: dict[tuple[str | None, ...], int] = {}
    values = [tuple(SPLITS[kind](row) for kind in by) for row in rows]
    numbers = np.array([known.setdefault(value, len(known) + 1) for value in values], dtype=np.uint64)
    codes = np.repeat(mixed(numbers), accesses.lengths)
    return accesses.with_keys(keyed(accesses.names, codes))
