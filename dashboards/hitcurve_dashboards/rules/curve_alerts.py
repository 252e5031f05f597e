"""Alerts on what the exporter found: one for each unhealthy curve state, and for what leads to one."""

from hitcurve_dashboards.rules.records import Alert, RuleGroup

__all__ = ["CURVE_ALERTS"]

_WHO = "{{ $labels.target }} (engine {{ $labels.engine }}, {{ $labels.model_name }})"
_CAUSE_QUERY = "hitcurve_curve_cause{target='%s',engine='%s'} == 1"
_CAUSE = (
    f'{{{{ with printf "{_CAUSE_QUERY}" $labels.target $labels.engine | query }}}}'
    '{{ . | first | label "cause" }}{{ else }}unknown{{ end }}'
)
_BUSY = "and on (job, target, engine) (target_engine:hitcurve_query_tokens:rate5m > 0)"


def _in_state(state: str, guard: str = "") -> str:
    found = f'sum by (job, target, engine, model_name) (hitcurve_curve_state{{state=~"{state}"}}) > 0'
    return f"{found} {guard}".strip()


CURVE_ALERTS = RuleGroup(
    "hitcurve-alert-curve",
    (
        Alert(
            "PrefixCacheCollapsed",
            _in_state("collapsed", _BUSY),
            "2m",
            "critical",
            f"The prefix cache of {_WHO} finds nothing any more.",
            f"Its hit rate fell to nearly zero and stayed there. Probable cause: {_CAUSE}.",
            "prefix-cache-collapsed",
        ),
        Alert(
            "PrefixCacheStalled",
            _in_state("stalled"),
            "2m",
            "critical",
            f"{_WHO} stands still while requests wait.",
            "Requests wait, and no counter moves: the engine does not work.",
            "prefix-cache-stalled",
        ),
        Alert(
            "PrefixCacheDegraded",
            _in_state("degraded", _BUSY),
            "10m",
            "warning",
            f"The hit rate of {_WHO} took a lasting step down.",
            f"It is below its own baseline. Probable cause: {_CAUSE}.",
            "prefix-cache-degraded",
        ),
        Alert(
            "PrefixCacheLow",
            _in_state("low", _BUSY),
            "15m",
            "warning",
            f"The prefix cache of {_WHO} hardly finds anything.",
            f"It had enough traffic to become warm and is not. Probable cause: {_CAUSE}.",
            "prefix-cache-low",
        ),
        Alert(
            "PrefixCacheOscillating",
            _in_state("oscillating", _BUSY),
            "10m",
            "warning",
            f"The hit rate of {_WHO} swings far beyond its noise.",
            f"Blocks are evicted as soon as they are built. Probable cause: {_CAUSE}.",
            "prefix-cache-oscillating",
        ),
        Alert(
            "PrefixCacheColdTooLong",
            _in_state("cold|warming", _BUSY),
            "30m",
            "warning",
            f"The prefix cache of {_WHO} does not become warm.",
            "It has had traffic for half an hour since its start, restart or reset and is not steady yet.",
            "prefix-cache-cold-too-long",
        ),
        Alert(
            "PrefixCacheReset",
            "sum by (job, target, engine, model_name) (increase(hitcurve_cache_resets_total[5m])) > 0",
            "0m",
            "info",
            f"The prefix cache of {_WHO} was reset.",
            "Its hit rate starts at nothing and climbs again. Normal after weights were changed.",
            "prefix-cache-reset",
        ),
        Alert(
            "PrefixCacheEngineRestarting",
            "sum by (job, target, engine, model_name) (increase(hitcurve_engine_restarts_total[30m])) >= 2",
            "0m",
            "warning",
            f"{_WHO} restarts again and again.",
            "It restarted at least twice in half an hour; its cache is cold each time.",
            "prefix-cache-engine-restarting",
        ),
    ),
)
