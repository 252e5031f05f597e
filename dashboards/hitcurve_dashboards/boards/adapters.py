"""Adapters and tenants: who gets hits, who pays for whom?"""

from hitcurve_dashboards.boards.shared import NEEDS_PATCH, PATCH, PATCH_VARIABLES, by_adapter, rate, ratio
from hitcurve_dashboards.grafana.looks import REASON_COLOURS, coloured
from hitcurve_dashboards.grafana.records import Dashboard, Panel, Query, Row

__all__ = ["ADAPTERS"]

_NO_VALUE = "No traffic, or no engine patch"
_BY = "{{adapter}}"


def _query(expr: str, legend: str) -> Query:
    return Query(expr, legend, may_be_empty=NEEDS_PATCH)


def _by_adapter(expr: str) -> Query:
    return _query(by_adapter(expr), _BY)


_HITS = Row(
    "Who gets hits?",
    (
        Panel(
            "Hit rate by adapter",
            "timeseries",
            "Whose prompts are found, by adapter or without one?",
            (
                _by_adapter(
                    ratio(
                        "hitcurve_engine_hit_tokens_total", "hitcurve_engine_query_tokens_total", PATCH, "adapter"
                    )
                ),
            ),
            unit="percentunit",
            height=10,
            minimum=0,
            maximum=1,
            no_value=_NO_VALUE,
        ),
        Panel(
            "Query tokens by adapter",
            "timeseries",
            "Who brings the traffic?",
            (_by_adapter(rate("hitcurve_engine_query_tokens_total", PATCH, "adapter")),),
            unit="count:tok/s",
            height=10,
            minimum=0,
            no_value=_NO_VALUE,
        ),
        Panel(
            "Missed tokens by reason",
            "timeseries",
            "Why do the adapters in view miss? Choose one above to see its own reasons.",
            (_query(rate("hitcurve_engine_miss_tokens_total", PATCH, "reason"), "{{reason}}"),),
            unit="count:tok/s",
            minimum=0,
            no_value=_NO_VALUE,
            overrides=coloured(REASON_COLOURS),
            custom={"stacking": {"group": "A", "mode": "normal"}, "fillOpacity": 70, "lineWidth": 0},
        ),
        Panel(
            "Isolated tokens by kind of key",
            "timeseries",
            "What keeps equal prompts apart: the adapter, the salt or the image? Cached, but elsewhere.",
            (_query(rate("hitcurve_engine_isolated_tokens_total", PATCH, "key"), "{{key}}"),),
            unit="count:tok/s",
            minimum=0,
            no_value=_NO_VALUE,
        ),
    ),
)
_PRICE = Row(
    "Who pays?",
    (
        Panel(
            "Evicted blocks by adapter",
            "timeseries",
            "Whose blocks are thrown out?",
            (_by_adapter(rate("hitcurve_engine_evicted_blocks_total", PATCH, "adapter")),),
            unit="count:blocks/s",
            height=10,
            minimum=0,
            no_value=_NO_VALUE,
        ),
        Panel(
            "Recomputed tokens by adapter",
            "timeseries",
            "Who asked again for what had been evicted?",
            (_by_adapter(rate("hitcurve_engine_regret_tokens_total", PATCH, "adapter")),),
            unit="count:tok/s",
            height=10,
            minimum=0,
            no_value=_NO_VALUE,
        ),
    ),
)

ADAPTERS = Dashboard(
    "hitcurve-adapters",
    "hitcurve / Adapters and tenants",
    "Who gets hits, and who pays for whom? Needs the hitcurve engine patch.",
    PATCH_VARIABLES,
    (_HITS, _PRICE),
)
