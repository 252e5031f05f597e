"""Capacity: is the pool large enough for what is asked of it?"""

from hitcurve_dashboards.boards.shared import CUTS, ENGINE, EXPORTER_VARIABLES, either, rate
from hitcurve_dashboards.grafana.looks import coloured
from hitcurve_dashboards.grafana.records import Dashboard, Override, Panel, Query, Row

__all__ = ["CAPACITY"]

_NAME = "{{target}} #{{engine}}"
_BY = "target, engine"
_MISSED = (
    f"({rate('hitcurve_query_tokens_total', ENGINE, _BY)} - {rate('hitcurve_hit_tokens_total', ENGINE, _BY)})"
)
_CAPACITY = f"sum by ({_BY}) (hitcurve_capacity_tokens{{{ENGINE}}})"
_NO_SIZE = "the page does not say how large the pool is"
_NO_EVICTIONS = "the engine counts no evictions"

_SIZE = Row(
    "Size of the pool",
    (
        Panel(
            "Pool",
            "stat",
            "How many tokens do the pools in view hold together?",
            (Query(f"sum(hitcurve_capacity_tokens{{{ENGINE}}})", may_be_empty=_NO_SIZE),),
            width=6,
            height=5,
            unit="count:tok",
            no_value="Not on the page",
        ),
        Panel(
            "Smallest reusable prefix",
            "stat",
            "Which prefixes are too short ever to hit? The largest of the engines in view.",
            (Query(f"max(hitcurve_min_reusable_prefix_tokens{{{ENGINE}}})", may_be_empty=_NO_SIZE),),
            width=6,
            height=5,
            unit="count:tok",
            no_value="Not on the page",
        ),
        Panel(
            "Pool by replica",
            "bargauge",
            "Are the pools of one size?",
            (Query(_CAPACITY, _NAME, instant=True, may_be_empty=_NO_SIZE),),
            width=12,
            height=5,
            unit="count:tok",
            minimum=0,
            no_value="Not on the page",
        ),
    ),
)
_PRESSURE = Row(
    "Pressure",
    (
        Panel(
            "Time until misses fill the pool",
            "timeseries",
            "How long does a block live at most, if nothing reuses it? Pool size / tokens missed per second. "
            "Prefixes that return later than this are lost.",
            (Query(f"{_CAPACITY} / ({_MISSED} > 0)", _NAME, may_be_empty=_NO_SIZE),),
            unit="s",
            minimum=0,
        ),
        Panel(
            "KV pool held by requests",
            "timeseries",
            "How much of the pool is left for idle cached blocks?",
            (Query(f"hitcurve_kv_usage_ratio{{{ENGINE}}}", _NAME),),
            unit="percentunit",
            minimum=0,
            maximum=1,
            no_value="Not on the engine's page",
        ),
        Panel(
            "Evicted tokens",
            "timeseries",
            "How many cached tokens are thrown out per second? Needs the hitcurve engine patch.",
            (
                Query(
                    f"{rate('hitcurve_evicted_blocks_total', ENGINE, _BY)} * on ({_BY}) "
                    f"sum by ({_BY}) (hitcurve_block_size_tokens{{{ENGINE}}})",
                    _NAME,
                    may_be_empty=_NO_EVICTIONS,
                ),
            ),
            unit="count:tok/s",
            minimum=0,
            no_value="Needs the engine patch",
        ),
        Panel(
            "Missed tokens",
            "timeseries",
            "How many tokens per second have to be computed?",
            (Query(_MISSED, _NAME),),
            unit="count:tok/s",
            minimum=0,
        ),
    ),
)

_ON_TARGET = 'target=~"$target",engine=~"$engine"'
_NO_POOL_CURVE = "no engine has the engine patch with HITCURVE_POOL_CURVE=on"
_OTHER_POOLS = (
    f"{rate('hitcurve_engine_pool_curve_hit_tokens_total', _ON_TARGET, 'pool')} / ignoring (pool) group_left () "
    f"({rate('hitcurve_engine_pool_curve_query_tokens_total', _ON_TARGET)} > 0)"
)
_POOLS = coloured(
    {
        "0.5x": "#FF9830",
        "1x": "#56A64B",
        "1.5x": "#8AB8FF",
        "2x": "#5794F2",
        "4x": "#3274D9",
        "unlimited": "#B877D9",
    }
)
_OTHERS = Row(
    "What another pool would hit (needs the engine patch with HITCURVE_POOL_CURVE=on)",
    (
        Panel(
            "Hit rate by size of the pool",
            "timeseries",
            "What would half, twice or four times the pool hit with this traffic? An estimate from a sample.",
            (Query(_OTHER_POOLS, "{{pool}}", may_be_empty=_NO_POOL_CURVE),),
            unit="percentunit",
            minimum=0,
            maximum=1,
            no_value="Needs HITCURVE_POOL_CURVE=on",
            overrides=_POOLS,
        ),
        Panel(
            "Hit rate against the size of the pool, now",
            "bargauge",
            "Where does more memory stop paying? Where two neighbours are alike, the larger one buys nothing.",
            (Query(f"sort({_OTHER_POOLS})", "{{pool}}", instant=True, may_be_empty=_NO_POOL_CURVE),),
            unit="percentunit",
            minimum=0,
            maximum=1,
            no_value="Needs HITCURVE_POOL_CURVE=on",
            overrides=_POOLS,
        ),
    ),
)

_SHOWN = {
    "target": "replica",
    "engine": "engine",
    "kv_cache_memory_bytes": "memory asked for",
    "gpu_memory_utilization": "share of GPU memory",
    "kv_cache_size_tokens": "pool, tokens",
    "num_gpu_blocks": "pool, blocks",
    "block_size": "block, tokens",
    "cache_dtype": "type",
}
_MEMORY = Row(
    "What the pool is made of (needs vLLM scraped by Prometheus itself, with the label target)",
    (
        Panel(
            "Memory of the pool",
            "table",
            "How many bytes of memory does each engine give to the pool, and how many tokens of which type fit in "
            "there? Without --kv-cache-memory-bytes it is a share of the GPU's memory, less what the model takes.",
            (
                Query(
                    either(f"vllm:cache_config_info{{{_ON_TARGET}}}"),
                    instant=True,
                    table=True,
                    may_be_empty="the page has no such series",
                ),
            ),
            width=24,
            height=6,
            no_value="Not on the page",
            overrides=(Override({"unit": "bytes"}, name=_SHOWN["kv_cache_memory_bytes"]),),
            transformations=(
                {"id": "filterFieldsByName", "options": {"include": {"names": list(_SHOWN)}}},
                {
                    "id": "convertFieldType",
                    "options": {
                        "conversions": [{"destinationType": "number", "targetField": "kv_cache_memory_bytes"}],
                        "fields": {},
                    },
                },
                {
                    "id": "organize",
                    "options": {
                        "excludeByName": {},
                        "indexByName": {name: place for place, name in enumerate(_SHOWN)},
                        "renameByName": _SHOWN,
                    },
                },
            ),
        ),
    ),
)

CAPACITY = Dashboard(
    "hitcurve-capacity",
    "hitcurve / Capacity",
    "Is the pool large enough? What more memory would buy: hitcurve estimate. Needs the hitcurve exporter.",
    EXPORTER_VARIABLES,
    (_SIZE, _PRESSURE, _OTHERS, _MEMORY),
    CUTS,
    time_from="now-24h",
    refresh="5m",
)
