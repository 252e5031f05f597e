"""Alerts on what the engine patch tells, and on the patch itself."""

from hitcurve_dashboards.rules.records import Alert, RuleGroup

__all__ = ["PATCH_ALERTS"]

_ENGINE = "{{ $labels.instance }} (engine {{ $labels.engine }}, {{ $labels.model_name }})"
_CAPACITY, _QUERY = (
    f"instance_engine:hitcurve_engine_{name}:rate5m" for name in ("capacity_miss_tokens", "query_tokens")
)

PATCH_ALERTS = RuleGroup(
    "hitcurve-alert-patch",
    (
        Alert(
            "PrefixCacheIsolationViolated",
            "increase(hitcurve_engine_stale_hit_tokens_total[15m]) > 0",
            "1m",
            "critical",
            f"{_ENGINE} serves adapter {{{{ $labels.adapter }}}} from blocks of other weights.",
            "{{ $value | humanize }} hit tokens in 15 minutes were computed by an earlier load of the adapter; "
            "answers built on them are wrong.",
            "prefix-cache-isolation-violated",
        ),
        Alert(
            "PrefixCacheCapacityMisses",
            f"{_CAPACITY} / ({_QUERY} > 100) > 0.3",
            "30m",
            "warning",
            f"The KV pool of {_ENGINE} is too small for its traffic.",
            "{{ $value | humanizePercentage }} of the tokens looked up were cached once and evicted too early.",
            "prefix-cache-capacity-misses",
        ),
        Alert(
            "EnginePatchOff",
            "hitcurve_engine_active == 0",
            "5m",
            "warning",
            f"The engine patch on {_ENGINE} switched itself off.",
            "It met something it does not know and stepped aside; the engine serves as before.",
            "engine-patch-off",
        ),
        Alert(
            "EnginePatchDropsEvents",
            "increase(hitcurve_engine_dropped_events_total[15m]) > 0",
            "0m",
            "warning",
            f"The engine patch on {_ENGINE} could not keep up.",
            "It dropped events of the engine; miss reasons of that time are not exact.",
            "engine-patch-drops-events",
        ),
    ),
)
