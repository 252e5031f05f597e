"""The answer as JSON values, the contract of ``hitcurve estimate --json``; tables and pages are made from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hitcurve_simulator.estimate.definitions import BOUND, ENGINE_LIKE, SPEED_UP
from hitcurve_simulator.estimate.estimate import Curves, Estimator, pool_grid
from hitcurve_simulator.estimate.hit_curve import HitCurve
from hitcurve_simulator.estimate.question import Question
from hitcurve_simulator.estimate.routing import POLICIES
from hitcurve_simulator.estimate.traffic import FileFinding

__all__ = ["answer"]

SHARES_OF_CEILING = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)

Json = dict[str, Any]


def answer(estimator: Estimator, question: Question) -> Json:
    """Everything that was asked. Rates are None where nothing was looked up; pools are usable blocks."""
    traffic, curves = estimator.traffic, estimator.curves
    values: Json = {
        "source": traffic.name,
        "formats": list(traffic.formats),
        "block_size": traffic.block_size,
        "requests": len(traffic.rows),
        "query_tokens": curves.bound.query_tokens,
        "query_blocks": curves.bound.query_blocks,
        "distinct_blocks": estimator.bound_reuse.distinct_blocks,
        "outputs": estimator.outputs,
        "warm_up": estimator.warm_up,
        "ceiling": _ceiling(curves),
        "curve": _curve(estimator, question),
        "pool_for_share_of_ceiling": _pools_for_shares(curves),
        "shares": [_shares(one) for one in estimator.shares([*question.pools, None])],
        "speed_up": SPEED_UP,
    }
    pools = [*question.pools, None]
    if question.memory is not None:
        values["model"] = question.memory.as_json()
    if question.block_sizes:
        values["block_sizes"] = _block_sizes(estimator, question)
    if variants := estimator.isolation():
        values["isolation"] = [
            {
                "isolated_by": list(variant.isolated_by),
                "as_it_is": variant.as_it_is,
                "pools": _engine_rates(variant.curve, pools),
            }
            for variant in variants
        ]
    if question.split is not None:
        values["split"] = {"by": question.split, "groups": _groups(estimator, question.split, pools)}
    if question.replicas is not None:
        values["routing"] = _routing(estimator, question.replicas, question.seed, pools)
    if question.breaks:
        values["breaks"] = _breaks(estimator, question.pools[0] if question.pools else None)
    values["skipped_rows"] = len(traffic.rejected)
    values["rejected"] = _findings(traffic.rejected)
    values["warnings"] = _findings(traffic.warnings)
    values["notes"] = list(traffic.notes)
    if estimator.warm_up:
        values["notes"].append(
            f"the first {estimator.warm_up:.0%} of the requests fill the pool and are not counted"
        )
    if traffic.has_text and not question.breaks:
        values["notes"].append("where reuse breaks was not looked for; --breaks does")
    return values


def _ceiling(curves: Curves) -> Json:
    bound, engine = curves.bound, curves.engine
    return {
        "token": bound.rate_in(None),
        "block": bound.block_rate_in(None),
        "definition": BOUND,
        "engine_like": {
            "token": engine.rate_in(None),
            "block": engine.block_rate_in(None),
            "definition": ENGINE_LIKE,
        },
    }


def _curve(estimator: Estimator, question: Question) -> list[Json]:
    curves = estimator.curves
    largest = max(curves.bound.largest_pool, curves.engine.largest_pool)
    if question.every:
        knots = np.unique(np.concatenate((curves.bound.knots(), curves.engine.knots(), question.pools, [largest])))
        sizes = knots.astype(np.int64).tolist()
    else:
        sizes = list(question.pools) or pool_grid(largest)
    return [_point(estimator, question, size) for size in sizes]


def _point(estimator: Estimator, question: Question, pool: int) -> Json:
    curves, size = estimator.curves, estimator.traffic.block_size
    engine = curves.engine.rate_in(pool)
    point: Json = {
        "pool_blocks": pool,
        "pool_tokens": pool * size,
        "hit_rate": curves.bound.rate_in(pool),
        "block_hit_rate": curves.bound.block_rate_in(pool),
        "engine_like_hit_rate": engine,
        "speed_up": _speed_up(engine),
        "requests_larger_than_pool": int((estimator.chains.engine.lengths > pool).sum()),
    }
    if question.memory is not None:
        point["pool_gib"] = question.memory.gib_of(pool, size)
    return point


def _speed_up(rate: float | None) -> float | None:
    return None if rate is None or rate >= 1.0 else 1.0 / (1.0 - rate)


def _pools_for_shares(curves: Curves) -> list[Json]:
    return [
        {
            "share": share,
            "pool_blocks": curves.bound.pool_for(share),
            "engine_like_pool_blocks": curves.engine.pool_for(share),
        }
        for share in SHARES_OF_CEILING
    ]


def _shares(shares: Any) -> Json:
    names = ("pool_blocks", "hit", "compulsory", "capacity", "isolated", "tail")
    return {name: getattr(shares, name) for name in names}


def _engine_rates(curve: HitCurve, pools: Sequence[int | None]) -> list[Json]:
    return [{"pool_blocks": pool, "engine_like_hit_rate": curve.rate_in(pool)} for pool in pools]


def _block_sizes(estimator: Estimator, question: Question) -> list[Json]:
    """The same memory cut into other blocks."""
    found = []
    for size in question.block_sizes:
        curves = estimator.curves_at(size)
        tokens = [
            None if pool is None else pool * estimator.traffic.block_size for pool in (*question.pools, None)
        ]
        rates = [
            {
                "pool_tokens": wanted,
                "pool_blocks": None if wanted is None else wanted // size,
                "engine_like_hit_rate": curves.engine.rate_in(None if wanted is None else wanted // size),
            }
            for wanted in tokens
        ]
        found.append({"block_size": size, "ceiling": _ceiling(curves), "pools": rates})
    return found


def _groups(estimator: Estimator, split: str, pools: Sequence[int | None]) -> list[Json]:
    return [
        {
            "name": group.name,
            "requests": group.requests,
            "query_tokens": group.curve.query_tokens,
            "pools": _engine_rates(group.curve, pools),
        }
        for group in estimator.groups(split)
    ]


def _routing(estimator: Estimator, replicas: int, seed: int, pools: Sequence[int | None]) -> Json:
    return {
        "replicas": replicas,
        "seed": seed,
        "pool": "blocks of each replica",
        "policies": [
            {
                "policy": routed.policy,
                "definition": POLICIES[routed.policy],
                "busiest_replica_share": routed.busiest_share,
                "pools": _engine_rates(routed.curve, pools),
            }
            for routed in estimator.routed(replicas, seed)
        ],
    }


def _breaks(estimator: Estimator, pool: int | None) -> list[Json]:
    return [
        {
            "group": fixed.found.group,
            "cause": fixed.found.cause,
            "token": fixed.found.position,
            "character": fixed.found.start,
            "requests": fixed.found.requests,
            "of_requests": fixed.found.of_requests,
            "texts": list(fixed.found.texts),
            "fix": "move it to the end of the prompt",
            "ceiling_before": fixed.before.ceiling,
            "ceiling_after": fixed.after.ceiling,
            "gain": _gain(fixed.before.ceiling, fixed.after.ceiling),
            "pool_blocks": pool,
            "hit_rate_before": fixed.before.in_pool,
            "hit_rate_after": fixed.after.in_pool,
            "gain_in_pool": _gain(fixed.before.in_pool, fixed.after.in_pool),
        }
        for fixed in estimator.breaks(pool)
    ]


def _gain(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _findings(findings: Sequence[FileFinding]) -> list[Json]:
    return [{"file": finding.file, "line": finding.line, "reason": finding.reason} for finding in findings]
