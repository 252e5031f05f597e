"""What a span says, as plain values. No prompt text, token, hash or salt is among them.

``gen_ai.*`` names are those of OpenTelemetry's semantic conventions 1.40 for generative AI (their status is
"development": they may move); whatever has no name there is ``hitcurve.*``.
"""

from collections.abc import Mapping
from typing import Any, Final

from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, FinishedRequest
from hitcurve_engine.spans.eviction_summary import EvictionSummary

__all__ = [
    "CACHE_READ",
    "INPUT_TOKENS",
    "KEPT",
    "eviction_attributes",
    "request_attributes",
    "reset_attributes",
    "resource_attributes",
]

Value = str | bool | int | float | tuple[str, ...]

INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
KEPT: Final = "hitcurve.kept"
"""Why the span is kept although the sampler may not have chosen it."""

_FINISH_REASONS: Final = {"STOPPED": "stop", "LENGTH_CAPPED": "length", "ABORTED": "abort"}


def request_attributes(finished: FinishedRequest, facts: EngineFacts) -> dict[str, Value]:
    """Attributes of a request's span; what is not known is left out, which is not the same as 0."""
    outcome, context = finished.outcome, finished.context
    queried = outcome.query_tokens is not None
    cached = (outcome.hit_tokens or 0) + (outcome.external_hit_tokens or 0) if queried else None
    said: dict[str, Any] = {
        "gen_ai.request.model": outcome.adapter or facts.model_name,
        INPUT_TOKENS: outcome.prompt_tokens,
        "gen_ai.usage.output_tokens": context.output_tokens,
        CACHE_READ: cached,
        "gen_ai.response.finish_reasons": _finish_reasons(context.finish_status),
        "hitcurve.request.id": outcome.request_id,
        "hitcurve.status": outcome.status,
        "hitcurve.adapter": outcome.adapter,
        "hitcurve.query_tokens": outcome.query_tokens,
        "hitcurve.hit_tokens": outcome.hit_tokens,
        "hitcurve.stale_hit_tokens": outcome.stale_hit_tokens,
        "hitcurve.computed_tokens": outcome.computed_tokens,
        "hitcurve.external.query_tokens": outcome.external_query_tokens,
        "hitcurve.external.hit_tokens": outcome.external_hit_tokens,
        "hitcurve.engine_cached_tokens": outcome.cached_tokens,
        "hitcurve.lookups": outcome.lookups,
        "hitcurve.wait_seconds": outcome.queue_s,
        "hitcurve.preemptions": outcome.preemptions,
        "hitcurve.recompute.query_tokens": outcome.recompute_query_tokens,
        "hitcurve.recompute.hit_tokens": outcome.recompute_hit_tokens,
        "hitcurve.cache_salt.present": context.salted,
        "hitcurve.image_keys": context.image_keys,
        "hitcurve.stored_blocks": context.stored_blocks,
        "hitcurve.evicted_blocks": context.evicted_blocks,
        "hitcurve.isolated_by": tuple(sorted(key for key, tokens in outcome.isolated_by.items() if tokens))
        or None,
        "hitcurve.anomalies": tuple(outcome.anomalies) or None,
    }
    for reason, tokens in (outcome.miss_tokens or {}).items():
        said[f"hitcurve.miss_tokens.{reason}"] = tokens
    return _known(said)


def eviction_attributes(summary: EvictionSummary) -> dict[str, Value]:
    """Attributes of the span of all that one request's allocations evicted."""
    return _known(
        {
            "hitcurve.request.id": summary.caused_by,
            "hitcurve.evicted_blocks": summary.blocks,
            "hitcurve.allocations": summary.allocations,
            "hitcurve.eviction.age_max_seconds": summary.oldest_s,
            "hitcurve.eviction.idle_min_seconds": summary.shortest_idle_s,
            "hitcurve.eviction.idle_max_seconds": summary.longest_idle_s,
            "hitcurve.eviction.never_reused_blocks": summary.never_reused,
            "hitcurve.eviction.reuses": summary.reuses,
            "hitcurve.eviction.duplicate_blocks": summary.duplicates,
            "hitcurve.eviction.depth_min": summary.shallowest,
            "hitcurve.eviction.adapters": tuple(sorted(summary.adapters)) or None,
            "hitcurve.eviction.victim_requests": len(summary.victims),
        }
    )


def reset_attributes(reset: CacheReset) -> dict[str, Value]:
    """Attributes of a reset's span."""
    return {"hitcurve.reset.done": reset.ok, "hitcurve.reset.cleared_blocks": reset.cleared_blocks}


def resource_attributes(facts: EngineFacts, environment: Mapping[str, str]) -> dict[str, Value]:
    """What holds for every span of an engine. A service name that the environment sets stays."""
    said: dict[str, Any] = {
        "process.pid": facts.pid,
        "hitcurve.engine.index": facts.engine_index or 0,
        "hitcurve.engine.model": facts.model_name,
        "hitcurve.engine.version": facts.engine_version,
        "hitcurve.engine.block_size": facts.block_size,
        "hitcurve.engine.pool_blocks": facts.pool_blocks,
    }
    if not environment.get("OTEL_SERVICE_NAME") and "service.name=" not in environment.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        said["service.name"] = "vllm"
    return _known(said)


def _finish_reasons(status: str | None) -> tuple[str, ...] | None:
    if status is None:
        return None
    name = status.removeprefix("FINISHED_")
    return (_FINISH_REASONS.get(name, name.lower()),)


def _known(said: dict[str, Any]) -> dict[str, Value]:
    return {name: value for name, value in said.items() if value is not None}
