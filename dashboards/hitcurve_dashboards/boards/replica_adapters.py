"""The row of the Replica dashboard about its adapters, from the engine patch."""

from hitcurve_dashboards.boards.shared import NEEDS_PATCH, by_adapter, rate, ratio
from hitcurve_dashboards.grafana.records import Panel, Query, Row

__all__ = ["REPLICA_ADAPTERS"]

_ON_TARGET = 'target=~"$target",engine=~"$engine"'
_NO_VALUE = "No traffic, or no engine patch"
_LEGEND = "{{adapter}}"

REPLICA_ADAPTERS = Row(
    "Adapters (needs the engine patch, and engines scraped by Prometheus itself with the label target)",
    (
        Panel(
            "Query tokens by adapter",
            "timeseries",
            "Which adapters does this replica serve, and did they come and go? Each has a cache of its own.",
            (
                Query(
                    by_adapter(rate("hitcurve_engine_query_tokens_total", _ON_TARGET, "adapter")),
                    _LEGEND,
                    may_be_empty=NEEDS_PATCH,
                ),
            ),
            unit="count:tok/s",
            height=10,
            minimum=0,
            no_value=_NO_VALUE,
        ),
        Panel(
            "Hit rate by adapter",
            "timeseries",
            "Which adapter is cold here? One that is lower than elsewhere may be sent to too many replicas.",
            (
                Query(
                    by_adapter(
                        ratio(
                            "hitcurve_engine_hit_tokens_total",
                            "hitcurve_engine_query_tokens_total",
                            _ON_TARGET,
                            "adapter",
                        )
                    ),
                    _LEGEND,
                    may_be_empty=NEEDS_PATCH,
                ),
            ),
            unit="percentunit",
            height=10,
            minimum=0,
            maximum=1,
            no_value=_NO_VALUE,
        ),
    ),
)
