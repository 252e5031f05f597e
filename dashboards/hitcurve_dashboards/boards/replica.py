"""Replica: what happens there?"""

from hitcurve_dashboards.boards.replica_adapters import REPLICA_ADAPTERS
from hitcurve_dashboards.boards.replica_misses import MISSES
from hitcurve_dashboards.boards.shared import (
    CUTS,
    ENGINE,
    EXPORTER_VARIABLES,
    NEEDS_PATCH,
    codes,
    either,
    rate,
    ratio,
)
from hitcurve_dashboards.grafana.looks import (
    CAUSE_CODES,
    CAUSE_COLOURS,
    REASON_COLOURS,
    STATE_CODES,
    STATE_COLOURS,
    shades,
    value_names,
)
from hitcurve_dashboards.grafana.records import Dashboard, Panel, Query, Row

__all__ = ["REPLICA"]

_NAME = "{{target}} #{{engine}}"
_RATE = ratio("hitcurve_hit_tokens_total", "hitcurve_query_tokens_total", ENGINE, "target, engine")

_CURVE = Row(
    "Curve",
    (
        Panel(
            "Curve state",
            "state-timeline",
            "In which state is the hit-rate curve, and since when?",
            (Query(codes("hitcurve_curve_state", "state", dict(STATE_CODES), ENGINE), _NAME),),
            width=24,
            height=6,
            no_value="No engine",
            mappings=(value_names(STATE_CODES, STATE_COLOURS),),
        ),
        Panel(
            "Probable cause",
            "state-timeline",
            "What probably made the curve so? Empty while no cause is named.",
            (
                Query(
                    codes("hitcurve_curve_cause", "cause", dict(CAUSE_CODES), ENGINE),
                    _NAME,
                    may_be_empty="no state has a cause",
                ),
            ),
            width=24,
            height=5,
            no_value="No cause named",
            mappings=(value_names(CAUSE_CODES, CAUSE_COLOURS),),
        ),
    ),
)
_RATES = Row(
    "Three hit rates: three different numbers",
    (
        Panel(
            "Rate-based hit rate",
            "timeseries",
            "What is the hit rate now? Increase of hits / increase of queries; it falls at once.",
            (Query(_RATE, _NAME),),
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Request-window hit rate",
            "timeseries",
            "What does vLLM's log line show? The last 1000 requests: it lags by 1000 / request rate.",
            (Query(f"hitcurve_request_window_hit_rate_ratio{{{ENGINE}}}", _NAME),),
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Cumulative hit rate",
            "timeseries",
            "What is the hit rate since the engine started? It hardly moves once the engine is old.",
            (Query(f"hitcurve_cumulative_hit_rate_ratio{{{ENGINE}}}", _NAME),),
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Lag of the request window",
            "timeseries",
            "How late does the request-window hit rate show a change?",
            (Query(f"hitcurve_request_window_lag_seconds{{{ENGINE}}}", _NAME),),
            unit="s",
            width=8,
            minimum=0,
        ),
        Panel(
            "Query and hit tokens",
            "timeseries",
            "Is it the cache or the traffic? Tokens looked up and found per second.",
            (
                Query(rate("hitcurve_query_tokens_total", ENGINE, "target, engine"), f"looked up {_NAME}"),
                Query(rate("hitcurve_hit_tokens_total", ENGINE, "target, engine"), f"found {_NAME}"),
            ),
            unit="count:tok/s",
            width=8,
            minimum=0,
            overrides=(shades("^looked up", "blue"), shades("^found", "green")),
        ),
        Panel(
            "Query tokens per request",
            "timeseries",
            "Did prompts become longer or shorter?",
            (
                Query(
                    ratio("hitcurve_query_tokens_total", "hitcurve_requests_total", ENGINE, "target, engine"),
                    _NAME,
                ),
            ),
            unit="count:tok",
            width=8,
            minimum=0,
        ),
    ),
)
_POOL = Row(
    "Pool and scheduler",
    (
        Panel(
            "KV pool held by requests",
            "timeseries",
            "Do running requests leave cached blocks room? Idle cached blocks are not counted.",
            (Query(f"hitcurve_kv_usage_ratio{{{ENGINE}}}", _NAME),),
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
            no_value="Not on the engine's page",
        ),
        Panel(
            "Evictions",
            "timeseries",
            "Are cached blocks thrown out to make room? Needs the engine patch: vLLM does not count them.",
            (
                Query(
                    rate("hitcurve_evicted_blocks_total", ENGINE, "target, engine"),
                    _NAME,
                    may_be_empty="the engine counts no evictions",
                ),
            ),
            unit="count:blocks/s",
            width=8,
            minimum=0,
            no_value="Needs the engine patch",
        ),
        Panel(
            "Preemptions",
            "timeseries",
            "Were requests thrown out of the pool while they ran? Their prefill is repeated.",
            (Query(rate("hitcurve_preemptions_total", ENGINE, "target, engine"), _NAME),),
            unit="count:/s",
            width=8,
            minimum=0,
            no_value="Not on the engine's page",
        ),
        Panel(
            "Running and waiting requests",
            "timeseries",
            "Do requests wait?",
            (
                Query(f"hitcurve_running_requests{{{ENGINE}}}", f"running {_NAME}"),
                Query(f"hitcurve_waiting_requests{{{ENGINE}}}", f"waiting {_NAME}"),
            ),
            width=8,
            minimum=0,
            no_value="Not on the engine's page",
        ),
        Panel(
            "Requests",
            "timeseries",
            "How many requests per second had their prefill?",
            (Query(rate("hitcurve_requests_total", ENGINE, "target, engine"), _NAME),),
            unit="count:req/s",
            width=8,
            minimum=0,
        ),
        Panel(
            "Restarts and resets",
            "timeseries",
            "When was the cache lost at once, by a restart or a reset?",
            (
                Query(
                    f"increase(hitcurve_engine_restarts_total{{{ENGINE}}}[$__rate_interval])", f"restart {_NAME}"
                ),
                Query(f"increase(hitcurve_cache_resets_total{{{ENGINE}}}[$__rate_interval])", f"reset {_NAME}"),
            ),
            width=8,
            minimum=0,
            no_value="No engine",
        ),
    ),
)
_BUCKETS = 'vllm:time_to_first_token_seconds_bucket{target=~"$target"}'


_FOUND = (
    "histogram_quantile(0.95, sum by (le, found, target) "
    '(rate(hitcurve_engine_first_token_seconds_bucket{target=~"$target"}[$__rate_interval])))'
)


def _quantile(level: float) -> str:
    return f"histogram_quantile({level}, sum by (le, target) {either(f'rate({_BUCKETS}[$__rate_interval])')})"


_LATENCY = Row(
    "Latency (needs the engines scraped by Prometheus itself, with the label target)",
    (
        Panel(
            "Time to first token",
            "timeseries",
            "Does the hit rate reach the users? A miss pays for its prefill before the first token.",
            (
                Query(_quantile(0.5), "p50 {{target}}"),
                Query(_quantile(0.95), "p95 {{target}}"),
                Query(_quantile(0.99), "p99 {{target}}"),
            ),
            unit="s",
            width=8,
            minimum=0,
        ),
        Panel(
            "Time to first token, hits and misses apart",
            "timeseries",
            "What does a miss cost? The 95th percentile by how much of the prompt was found: most (half or more), "
            "some, none; from the engine's queue on. Needs the engine patch.",
            (Query(_FOUND, "{{found}} {{target}}", may_be_empty=NEEDS_PATCH),),
            unit="s",
            width=8,
            minimum=0,
            no_value="No traffic, or no engine patch",
            overrides=(
                shades("^most", REASON_COLOURS["hit"]),
                shades("^some", "#96D98D"),
                shades("^none", REASON_COLOURS["compulsory"]),
            ),
        ),
        Panel(
            "First-order prefill speed-up",
            "timeseries",
            "How much prefill does the cache save? 1 / (1 - h); attention and queueing are not in it.",
            (Query(f"hitcurve_prefill_speedup_ratio{{{ENGINE}}}", "{{window}} " + _NAME),),
            unit="suffix:x",
            width=8,
            minimum=1,
        ),
    ),
)

REPLICA = Dashboard(
    "hitcurve-replica",
    "hitcurve / Replica",
    "What happens on one replica, and why? Needs the hitcurve exporter.",
    EXPORTER_VARIABLES,
    (_CURVE, _RATES, MISSES, _POOL, REPLICA_ADAPTERS, _LATENCY),
    CUTS,
)
