"""Fleet: where is it bad?"""

from hitcurve.reading import UNHEALTHY_STATES
from hitcurve_dashboards.boards.shared import CUTS, ENGINE, EXPORTER_VARIABLES, JOB, TARGET, increase, rate, ratio
from hitcurve_dashboards.grafana.looks import STATE_COLOURS, coloured
from hitcurve_dashboards.grafana.records import Dashboard, Override, Panel, Query, Row

__all__ = ["FLEET"]

_UNHEALTHY = "|".join(sorted(UNHEALTHY_STATES))
_STATE = f'(hitcurve_curve_state{{state=~"{_UNHEALTHY}",{ENGINE}}} == 1)'
_CAUSE = f"(hitcurve_curve_cause{{{ENGINE}}} == 1)"
_KEY = "on (job, target, engine)"
_UNHEALTHY_WITH_CAUSE = f"{_STATE} * {_KEY} group_left (cause) {_CAUSE} or {_KEY} {_STATE}"
_HEALTHY = "every replica is healthy"
_REPLICA_LINK = {
    "title": "Open replica",
    "url": "/d/hitcurve-replica?var-target=${__data.fields.target}&${datasource:queryparam}&${job:queryparam}"
    "&${model:queryparam}&${engine:queryparam}&${__url_time_range}",
}
_COLUMNS = {name: place for place, name in enumerate(("target", "engine", "model_name", "state", "cause"))}
_HIDDEN = {"Time": True, "__name__": True, "instance": True, "job": True, "Value": True}

_TILES = Row(
    "Now",
    (
        Panel(
            "Fleet hit rate",
            "stat",
            "Which share of the tokens looked up did the engines in view find, weighted by tokens?",
            (Query(ratio("hitcurve_hit_tokens_total", "hitcurve_query_tokens_total", ENGINE)),),
            unit="percentunit",
            width=4,
            height=4,
            decimals=1,
        ),
        Panel(
            "Unhealthy engines",
            "stat",
            "How many engines have a curve that is low, degraded, collapsed, oscillating or stalled?",
            (Query(f'sum(hitcurve_curve_state{{state=~"{_UNHEALTHY}",{ENGINE}}})'),),
            width=4,
            height=4,
            no_value="No engine",
            steps=((0, "green"), (1, "red")),
        ),
        Panel(
            "Engines",
            "stat",
            "How many engines are known?",
            (Query(f'count(hitcurve_curve_state{{state="steady",{ENGINE}}})'),),
            width=4,
            height=4,
            no_value="No engine",
        ),
        Panel(
            "Targets down",
            "stat",
            "How many targets could not be scraped the last time?",
            (Query(f"count(hitcurve_up{{{TARGET}}}) - sum(hitcurve_up{{{TARGET}}})"),),
            width=4,
            height=4,
            no_value="No target",
            steps=((0, "green"), (1, "red")),
        ),
        Panel(
            "Query tokens",
            "stat",
            "How many tokens are looked up per second?",
            (Query(rate("hitcurve_query_tokens_total", ENGINE)),),
            unit="count:tok/s",
            width=4,
            height=4,
        ),
        Panel(
            "Prefill saved",
            "stat",
            "How many tokens per second need no prefill because the cache had them?",
            (Query(rate("hitcurve_hit_tokens_total", ENGINE)),),
            unit="count:tok/s",
            width=4,
            height=4,
        ),
    ),
)
_WHERE = Row(
    "Where is it bad?",
    (
        Panel(
            "Unhealthy replicas",
            "table",
            "Which engines are unhealthy now, and what is the probable cause? Click a replica to open it.",
            (
                Query(
                    _UNHEALTHY_WITH_CAUSE,
                    instant=True,
                    table=True,
                    may_be_empty=_HEALTHY,
                ),
            ),
            no_value="Every replica is healthy",
            overrides=(Override({"links": [_REPLICA_LINK]}, name="target"),),
            transformations=(
                {
                    "id": "organize",
                    "options": {"excludeByName": _HIDDEN, "indexByName": _COLUMNS, "renameByName": {}},
                },
            ),
        ),
        Panel(
            "Curve states",
            "timeseries",
            "How many engines are in which state, and since when has that changed?",
            (Query(f"sum by (state) (hitcurve_curve_state{{{ENGINE}}})", "{{state}}"),),
            no_value="No engine",
            minimum=0,
            decimals=0,
            overrides=coloured(STATE_COLOURS),
            custom={"stacking": {"group": "A", "mode": "normal"}, "fillOpacity": 70, "lineWidth": 0},
        ),
    ),
)
_RATES = Row(
    "Hit rates",
    (
        Panel(
            "Hit rate by model",
            "timeseries",
            "Which model's hit rate changed? Rate-based, a ratio of sums over its replicas.",
            (
                Query(
                    ratio("hitcurve_hit_tokens_total", "hitcurve_query_tokens_total", ENGINE, "model_name"),
                    "{{model_name}}",
                ),
            ),
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Hit rate by replica",
            "timeseries",
            "Which replica's hit rate differs from the others'?",
            (
                Query(
                    ratio("hitcurve_hit_tokens_total", "hitcurve_query_tokens_total", ENGINE, "target"),
                    "{{target}}",
                ),
            ),
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Spread between replicas of a model",
            "timeseries",
            "Does routing send requests to replicas that have their prefixes? Best minus worst of a model.",
            (
                Query(
                    "max by (model_name) ({0}) - min by (model_name) ({0})".format(
                        ratio(
                            "hitcurve_hit_tokens_total",
                            "hitcurve_query_tokens_total",
                            ENGINE,
                            "model_name, target",
                        )
                    ),
                    "{{model_name}}",
                ),
            ),
            unit="percentunit",
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Query tokens by replica",
            "timeseries",
            "Which replica gets the traffic?",
            (Query(rate("hitcurve_query_tokens_total", ENGINE, "target"), "{{target}}"),),
            unit="count:tok/s",
            minimum=0,
        ),
    ),
)
_SCRAPING = Row(
    "Can these numbers be trusted?",
    (
        Panel(
            "Age of the last good scrape",
            "timeseries",
            "Which target has not been read for long? Its numbers are that old.",
            (Query(f"time() - hitcurve_last_success_timestamp_seconds{{{TARGET}}}", "{{target}}"),),
            unit="s",
            width=8,
            minimum=0,
            no_value="Never scraped",
        ),
        Panel(
            "Failed scrapes",
            "timeseries",
            "Why could which target not be read?",
            (
                Query(
                    increase("hitcurve_scrape_errors_total", TARGET, "target, reason") + " > 0",
                    "{{target}} {{reason}}",
                    may_be_empty="no scrape has failed yet",
                ),
            ),
            width=8,
            minimum=0,
            no_value="No failed scrape",
        ),
        Panel(
            "Odd pages",
            "timeseries",
            "What looked odd on whose page? The flags are explained in docs/metrics.md.",
            (
                Query(
                    increase("hitcurve_flags_total", TARGET, "target, flag") + " > 0",
                    "{{target}} {{flag}}",
                    may_be_empty="no page was odd yet",
                ),
            ),
            width=8,
            minimum=0,
            no_value="Nothing odd",
        ),
        Panel(
            "Scrape duration",
            "timeseries",
            "How long does a scrape take, and which engine answers slowly?",
            (Query(f"hitcurve_scrape_duration_seconds{{{TARGET}}}", "{{target}}"),),
            unit="s",
            minimum=0,
            no_value="No scrape",
        ),
        Panel(
            "Exporter errors",
            "timeseries",
            "Did the exporter itself fail, or refuse its configuration (1 is good)?",
            (
                Query(f"increase(hitcurve_exporter_internal_errors_total{{{JOB}}}[$__rate_interval])", "errors"),
                Query(f"hitcurve_exporter_config_last_reload_successful{{{JOB}}}", "configuration good"),
            ),
            minimum=0,
            no_value="No exporter",
        ),
    ),
    collapsed=True,
)

FLEET = Dashboard(
    "hitcurve-fleet",
    "hitcurve / Fleet",
    "Where is the prefix cache bad? Needs the hitcurve exporter.",
    EXPORTER_VARIABLES,
    (_TILES, _WHERE, _RATES, _SCRAPING),
    CUTS,
)
