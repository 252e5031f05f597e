"""The row of the Replica dashboard that explains misses, from the engine patch."""

from hitcurve_dashboards.boards.shared import NEEDS_PATCH, rate
from hitcurve_dashboards.grafana.looks import REASON_COLOURS, coloured
from hitcurve_dashboards.grafana.records import Panel, Query, Row

__all__ = ["MISSES"]

_ON_TARGET = 'target=~"$target",engine=~"$engine"'
_LOOKED_UP = rate("hitcurve_engine_query_tokens_total", _ON_TARGET)
_EVICTED = "hitcurve_engine_evicted_block"


def _of_evicted(measure: str, level: float) -> Query:
    buckets = rate(f"{_EVICTED}_{measure}_bucket", _ON_TARGET, "le")
    legend = f"{measure.removesuffix('_seconds')} p{level * 100:.0f}"
    return Query(f"histogram_quantile({level}, {buckets})", legend, may_be_empty=NEEDS_PATCH)


MISSES = Row(
    "Why tokens miss (needs the engine patch, and engines scraped by Prometheus itself with the label target)",
    (
        Panel(
            "Where query tokens went",
            "timeseries",
            "Which share was found, and why was the rest not? Hits and all reasons add up to 100 %.",
            (
                Query(
                    f"{rate('hitcurve_engine_hit_tokens_total', _ON_TARGET)} / ({_LOOKED_UP} > 0)",
                    "hit",
                    may_be_empty=NEEDS_PATCH,
                ),
                Query(
                    f"{rate('hitcurve_engine_miss_tokens_total', _ON_TARGET, 'reason')} "
                    f"/ ignoring (reason) group_left () ({_LOOKED_UP} > 0)",
                    "{{reason}}",
                    may_be_empty=NEEDS_PATCH,
                ),
            ),
            unit="percentunit",
            minimum=0,
            no_value="No traffic, or no engine patch",
            overrides=coloured(REASON_COLOURS),
            custom={"stacking": {"group": "A", "mode": "percent"}, "fillOpacity": 80, "lineWidth": 0},
        ),
        Panel(
            "Tokens recomputed because of evictions",
            "timeseries",
            "What did evictions cost? Tokens whose block had been evicted when it was asked for again.",
            (
                Query(
                    rate("hitcurve_engine_regret_tokens_total", _ON_TARGET, "target"),
                    "{{target}}",
                    may_be_empty=NEEDS_PATCH,
                ),
            ),
            unit="count:tok/s",
            minimum=0,
            no_value="No traffic, or no engine patch",
        ),
        Panel(
            "Age and idle time at eviction",
            "timeseries",
            "How long do blocks live, and how long unused? Short idle times: the pool is too small.",
            (
                _of_evicted("age_seconds", 0.5),
                _of_evicted("idle_seconds", 0.5),
                _of_evicted("idle_seconds", 0.1),
            ),
            unit="s",
            minimum=0,
            no_value="No evictions, or no engine patch",
        ),
        Panel(
            "Health of the engine patch",
            "timeseries",
            "Does the patch record (1), and did it drop events? Without it the reasons above are missing.",
            (
                Query(f"hitcurve_engine_active{{{_ON_TARGET}}}", "active {{target}}", may_be_empty=NEEDS_PATCH),
                Query(
                    rate("hitcurve_engine_dropped_events_total", _ON_TARGET, "target"),
                    "dropped {{target}}",
                    may_be_empty=NEEDS_PATCH,
                ),
            ),
            minimum=0,
            no_value="No engine patch",
        ),
    ),
)
