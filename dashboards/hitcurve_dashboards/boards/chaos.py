"""Chaos: what did the fault do?"""

from hitcurve_dashboards.boards.shared import CUTS, ENGINE, EXPORTER_VARIABLES, JOB, codes, rate, ratio
from hitcurve_dashboards.grafana.looks import STATE_CODES, STATE_COLOURS, value_names
from hitcurve_dashboards.grafana.records import Dashboard, Panel, Query, Row

__all__ = ["CHAOS"]

_NAME = "{{target}} #{{engine}}"
_BY = "target, engine"

_FAULT = Row(
    "What did the fault do?",
    (
        Panel(
            "Hit rates over the fault",
            "timeseries",
            "Did the rate-based hit rate fall, and did it come back? "
            "The request-window one lags, the cumulative one hardly moves. Purple marks are faults.",
            (
                Query(
                    ratio("hitcurve_hit_tokens_total", "hitcurve_query_tokens_total", ENGINE, _BY),
                    f"rate-based {_NAME}",
                ),
                Query(f"hitcurve_request_window_hit_rate_ratio{{{ENGINE}}}", f"request window {_NAME}"),
                Query(f"hitcurve_cumulative_hit_rate_ratio{{{ENGINE}}}", f"cumulative {_NAME}"),
            ),
            unit="percentunit",
            width=24,
            height=10,
            minimum=0,
            maximum=1,
        ),
        Panel(
            "Curve state over the fault",
            "state-timeline",
            "Was the fault named, and when was the curve steady again?",
            (Query(codes("hitcurve_curve_state", "state", dict(STATE_CODES), ENGINE), _NAME),),
            width=24,
            height=6,
            no_value="No engine",
            mappings=(value_names(STATE_CODES, STATE_COLOURS),),
        ),
        Panel(
            "Scenario that runs",
            "state-timeline",
            "Which scenario runs now, and which ran when? Told by a chaos run that Prometheus scrapes "
            "('hitcurve chaos run --metrics-listen').",
            (
                Query(
                    f"max by (scenario) (hitcurve_chaos_active{{{JOB}}}) > 0",
                    "{{scenario}}",
                    may_be_empty="no chaos run listens",
                ),
            ),
            width=24,
            height=5,
            no_value="No chaos run listens",
            mappings=(value_names({"runs": 1}, {"runs": "#B877D9"}),),
        ),
    ),
)
_SERVICE = Row(
    "Did the service hold?",
    (
        Panel(
            "Requests served",
            "timeseries",
            "Did the engine go on serving?",
            (Query(rate("hitcurve_requests_total", ENGINE, _BY), _NAME),),
            unit="count:req/s",
            width=8,
            minimum=0,
        ),
        Panel(
            "Waiting requests",
            "timeseries",
            "Did requests pile up?",
            (Query(f"hitcurve_waiting_requests{{{ENGINE}}}", _NAME),),
            width=8,
            minimum=0,
            no_value="Not on the engine's page",
        ),
        Panel(
            "Preemptions during the fault",
            "timeseries",
            "Were requests thrown out of the pool?",
            (Query(rate("hitcurve_preemptions_total", ENGINE, _BY), _NAME),),
            unit="count:/s",
            width=8,
            minimum=0,
            no_value="Not on the engine's page",
        ),
    ),
)

_RUNS = Row(
    "Which faults, and what was the verdict?",
    (
        Panel(
            "Runs and verdicts",
            "annolist",
            "Which faults were injected in this time, and what did each show? A click goes to its time. "
            "They come from 'hitcurve dashboards annotate', or from 'hitcurve chaos run --grafana'.",
            tags=("hitcurve-chaos",),
            width=24,
            height=6,
        ),
    ),
)

CHAOS = Dashboard(
    "hitcurve-chaos",
    "hitcurve / Chaos",
    "What did a fault do to the curve? Faults are annotations tagged hitcurve-chaos. Needs the hitcurve exporter.",
    EXPORTER_VARIABLES,
    (_FAULT, _SERVICE, _RUNS),
    CUTS,
    time_from="now-15m",
    refresh="5s",
)
