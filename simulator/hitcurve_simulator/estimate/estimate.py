"""All answers about one stream of traffic."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hitcurve_simulator.estimate.chains import Chains, chains_of
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve, hit_curve_of
from hitcurve_simulator.estimate.isolation import Variant, group_names, isolation_variants
from hitcurve_simulator.estimate.miss_shares import MissShares, miss_shares
from hitcurve_simulator.estimate.reuse import Reuse, reuse_of
from hitcurve_simulator.estimate.reuse_fixes import FixedBreak, Rates, fix_breaks
from hitcurve_simulator.estimate.routing import POLICIES, Routed, route
from hitcurve_simulator.estimate.traffic import Traffic
from hitcurve_simulator.traces import TraceRow

__all__ = ["Curves", "Estimator", "Group", "pool_grid"]


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves of one traffic at one block size, under both definitions."""

    block_size: int
    bound: HitCurve
    engine: HitCurve


@dataclass(frozen=True, slots=True)
class Group:
    """What one adapter, tenant, salt or session gets out of the common pool."""

    name: str
    requests: int
    curve: HitCurve


@dataclass
class Estimator:
    """Answers about ``traffic``, each computed when it is asked for.

    ``outputs``: they stay in the pool. ``warm_up``: share of the requests, from the first on, that fill the pool
    and are not counted.
    """

    traffic: Traffic
    outputs: bool = False
    warm_up: float = 0.0
    _by_size: dict[int, Curves] = field(default_factory=dict)

    @cached_property
    def chains(self) -> Chains:
        return self._chains(self.traffic.rows, self.traffic.block_size)

    @cached_property
    def bound_reuse(self) -> Reuse:
        return reuse_of(self.chains.bound)

    @cached_property
    def engine_reuse(self) -> Reuse:
        return reuse_of(self.chains.engine)

    @cached_property
    def curves(self) -> Curves:
        """At the block size of the traffic."""
        return Curves(
            self.traffic.block_size,
            hit_curve(self.chains.bound, self.bound_reuse),
            hit_curve(self.chains.engine, self.engine_reuse),
        )

    def curves_at(self, block_size: int) -> Curves:
        """At another block size: any where all rows bring tokens, else multiples of the one of the ids."""
        if block_size == self.traffic.block_size:
            return self.curves
        if block_size not in self._by_size:
            chains = self._chains(self.traffic.rows, block_size)
            self._by_size[block_size] = Curves(block_size, hit_curve_of(chains.bound), hit_curve_of(chains.engine))
        return self._by_size[block_size]

    def shares(self, pools: Sequence[int | None]) -> list[MissShares]:
        """Fates of all query tokens, engine-like."""
        return miss_shares(self.chains.engine, self.curves.engine, list(pools))

    def isolation(self) -> list[Variant]:
        """What isolation costs, engine-like."""
        return isolation_variants(self.chains.engine, self.traffic.rows)

    def groups(self, by: str) -> list[Group]:
        """Each group in the common pool, engine-like, those with the most query tokens first."""
        names = np.array(group_names(self.traffic.rows, by))
        groups = []
        for name in np.unique(names).tolist():
            members = names == name
            curve = hit_curve(self.chains.engine, self.engine_reuse, members)
            groups.append(Group(name, int(members.sum()), curve))
        return sorted(groups, key=lambda group: (-group.curve.query_tokens, group.name))

    def routed(self, replicas: int, seed: int) -> list[Routed]:
        """Every routing policy, engine-like."""
        return [route(self.chains.engine, replicas, policy, seed) for policy in POLICIES]

    def breaks(self, pool_blocks: int | None) -> list[FixedBreak]:
        """Where reuse breaks by tenant and what fixing gains, engine-like; needs rows of text."""
        groups = group_names(self.traffic.rows, "tenant")

        def rates(rows: Sequence[TraceRow]) -> Rates:
            curve = hit_curve_of(self._chains(rows, self.traffic.block_size).engine)
            return Rates(curve.rate_in(None), None if pool_blocks is None else curve.rate_in(pool_blocks))

        return fix_breaks(self.traffic.rows, groups, self.traffic.tokenizer, rates)

    def _chains(self, rows: Sequence[TraceRow], block_size: int) -> Chains:
        traffic = self.traffic
        warm_up = int(len(rows) * self.warm_up)
        return chains_of(rows, block_size, traffic.block_size, self.outputs, traffic.salts, warm_up)


def pool_grid(largest: int) -> list[int]:
    """1, 2, 5, 10, … blocks up to the pool that has every hit, and that pool."""
    sizes = [factor * 10**power for power in range(len(str(largest)) + 1) for factor in (1, 2, 5)]
    return [size for size in sizes if size < largest] + [largest]
