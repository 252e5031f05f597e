"""The reconciliation as JSON values, the contract of ``hitcurve reconcile --json``."""

from typing import Any

from hitcurve_simulator.reconcile.gap import GAPS, Row
from hitcurve_simulator.reconcile.reconcile import EngineCheck, Reconciliation
from hitcurve_simulator.reconcile.request_log import RequestLog

__all__ = ["answer"]

Json = dict[str, Any]


def answer(found: Reconciliation, log: RequestLog) -> Json:
    """Rates are ratios of sums, None is "no value"; gaps in tokens, and in points of the query tokens."""
    return {
        "verdict": found.verdict,
        "reasons": found.reasons,
        "notes": found.notes,
        "log": log.name,
        "requests": found.requests,
        "failed_requests": found.failed,
        "warm_requests": found.warm,
        "tolerance_points": found.tolerance_points,
        "rows": [_row(row) for row in found.rows],
        "engines": [_engine(check) for check in found.engines],
        "gaps": GAPS,
    }


def _row(row: Row) -> Json:
    return {
        "engine": row.engine,
        "adapter": row.adapter,
        "tenant": row.tenant,
        "requests": row.requests,
        "query_tokens": row.query_tokens,
        "ceiling": row.ceiling_rate,
        "prediction": row.prediction_rate,
        "measurement": row.measured_rate,
        "measured_by": row.measured_by,
        "hit_tokens": {"ceiling": row.ceiling, "prediction": row.prediction, "measurement": row.measurement},
        "gap_tokens": row.gaps,
        "gap_points": {
            name: None if tokens is None or not row.query_tokens else 100 * tokens / row.query_tokens
            for name, tokens in row.gaps.items()
        },
    }


def _engine(check: EngineCheck) -> Json:
    measured, choice = check.measured, check.choice
    return {
        "engine": measured.engine,
        "rules": None if choice is None else choice.rules,
        "version": None if choice is None else choice.version,
        "block_size": None if choice is None else choice.block_size,
        "pool_blocks": None if choice is None else choice.pool_blocks,
        "requests": check.requests,
        "counted_query_tokens": measured.query_tokens,
        "log_query_tokens": check.log_query_tokens,
        "foreign_tokens": check.foreign_tokens,
        "counted_hit_tokens": measured.hit_tokens,
        "told_cached_tokens": check.told_cached_tokens,
        "preemptions": measured.preemptions,
        "problems": list(measured.problems),
    }
