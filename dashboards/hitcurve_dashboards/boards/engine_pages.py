"""Plain vLLM: what can be seen without the exporter, from the engines' own pages."""

from hitcurve_dashboards.boards.shared import PAGE, PAGE_VARIABLES, either
from hitcurve_dashboards.grafana.looks import SOURCE_COLOURS, coloured
from hitcurve_dashboards.grafana.records import Dashboard, Panel, Query, Row

__all__ = ["ENGINE_PAGES"]

_NAME = "{{instance}} #{{engine}}"
_BY = "instance, engine"


def _rate(metric: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} {either(f'rate({metric}{{{PAGE}}}[$__rate_interval])')}"


def _ratio(numerator: str, denominator: str, by: str = "") -> str:
    return f"{_rate(numerator, by)} / ({_rate(denominator, by)} > 0)"


def _quantile(level: float, metric: str) -> str:
    return f"histogram_quantile({level}, {_rate(metric + '_bucket', 'le')})"


_HITS = Row(
    "Hits",
    (
        Panel(
            "Hit rate",
            "timeseries",
            "Which share of the tokens looked up was found? Rate-based; vLLM 0.9 and later count tokens.",
            (Query(_ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total", _BY), _NAME),),
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Hit rate of a cache outside the engine",
            "timeseries",
            "Which share of what the engine missed did a connected cache find? Needs a KV connector.",
            (
                Query(
                    _ratio(
                        "vllm:external_prefix_cache_hits_total", "vllm:external_prefix_cache_queries_total", _BY
                    ),
                    _NAME,
                    may_be_empty="no KV connector is configured",
                ),
            ),
            unit="percentunit",
            minimum=0,
            maximum=1,
            no_value="No KV connector",
        ),
        Panel(
            "Where prompt tokens came from",
            "timeseries",
            "How much was computed, how much was found in which cache?",
            (Query(_rate("vllm:prompt_tokens_by_source_total", "source"), "{{source}}"),),
            unit="count:tok/s",
            minimum=0,
            overrides=coloured(SOURCE_COLOURS),
            custom={"stacking": {"group": "A", "mode": "normal"}, "fillOpacity": 60, "lineWidth": 0},
        ),
        Panel(
            "Query and prompt tokens",
            "timeseries",
            "Is the cache asked at all? Query tokens below prompt tokens: requests skip the cache, or it is off.",
            (
                Query(_rate("vllm:prefix_cache_queries_total", _BY), f"looked up {_NAME}"),
                Query(_rate("vllm:prompt_tokens_total", _BY), f"prompt {_NAME}"),
            ),
            unit="count:tok/s",
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
            "Do running requests leave cached blocks room?",
            (Query(either(f"vllm:kv_cache_usage_perc{{{PAGE}}}"), _NAME),),
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
            no_value="No engine's page",
        ),
        Panel(
            "Preemptions",
            "timeseries",
            "Were requests thrown out of the pool while they ran?",
            (Query(_rate("vllm:num_preemptions_total", _BY), _NAME),),
            unit="count:/s",
            width=8,
            minimum=0,
            no_value="No engine's page",
        ),
        Panel(
            "Running and waiting requests",
            "timeseries",
            "Do requests wait?",
            (
                Query(either(f"vllm:num_requests_running{{{PAGE}}}"), f"running {_NAME}"),
                Query(either(f"vllm:num_requests_waiting{{{PAGE}}}"), f"waiting {_NAME}"),
            ),
            width=8,
            minimum=0,
            no_value="No engine's page",
        ),
        Panel(
            "Configuration of the cache",
            "table",
            "How large is the pool, how large a block, and is the cache on?",
            (
                Query(
                    either('vllm:cache_config_info{job=~"$job",instance=~"$instance"}'),
                    instant=True,
                    table=True,
                    may_be_empty="the page has no such series",
                ),
            ),
            width=24,
            height=6,
            no_value="Not on the page",
            transformations=(
                {
                    "id": "filterFieldsByName",
                    "options": {
                        "include": {
                            "names": [
                                "instance",
                                "engine",
                                "block_size",
                                "num_gpu_blocks",
                                "enable_prefix_caching",
                            ]
                        }
                    },
                },
            ),
        ),
    ),
)
_LATENCY = Row(
    "Latency",
    (
        Panel(
            "Time to first token",
            "timeseries",
            "What do users wait for the first token?",
            tuple(
                Query(_quantile(level, "vllm:time_to_first_token_seconds"), f"p{level * 100:.0f}")
                for level in (0.5, 0.95, 0.99)
            ),
            unit="s",
            minimum=0,
        ),
        Panel(
            "Time to first token, distribution",
            "heatmap",
            "Are there two humps, hits and misses?",
            (Query(_rate("vllm:time_to_first_token_seconds_bucket", "le"), "{{le}}", heatmap=True),),
            unit="count:req/s",
        ),
        Panel(
            "Prefill and queue time",
            "timeseries",
            "Does a slow first token come from prefill or from waiting?",
            (
                Query(_quantile(0.95, "vllm:request_prefill_time_seconds"), "prefill p95"),
                Query(_quantile(0.95, "vllm:request_queue_time_seconds"), "queue p95"),
            ),
            unit="s",
            minimum=0,
        ),
        Panel(
            "Tokens a request had to compute",
            "timeseries",
            "How much prefill was left after the cache?",
            (Query(_quantile(0.95, "vllm:request_prefill_kv_computed_tokens"), "p95"),),
            unit="count:tok",
            minimum=0,
        ),
    ),
)

ENGINE_PAGES = Dashboard(
    "hitcurve-engine-pages",
    "hitcurve / Plain vLLM",
    "What vLLM's own pages show of the prefix cache. Needs no hitcurve exporter; reads vllm: and vllm_ names.",
    PAGE_VARIABLES,
    (_HITS, _POOL, _LATENCY),
)
