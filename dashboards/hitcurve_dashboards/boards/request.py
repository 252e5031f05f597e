"""Request: from a slow or costly request to its trace, and back to its replica."""

from hitcurve_dashboards.boards.shared import NEEDS_PATCH, PATCH, PATCH_VARIABLES, either, rate
from hitcurve_dashboards.grafana.looks import REASON_COLOURS, coloured
from hitcurve_dashboards.grafana.records import Dashboard, Override, Panel, Query, Row, TextVariable, TraceQuery

__all__ = ["REQUEST"]

_ON_PAGE = 'job=~"$job",instance=~"$instance",engine=~"$engine",model_name=~"$model"'
_SPAN = 'name="prefix_cache.request"'
_SHOWN = ", ".join(
    f"span.hitcurve.{name}"
    for name in ("adapter", "query_tokens", "hit_tokens", "miss_tokens.capacity", "miss_tokens.isolated")
)
_KEPT = "&".join(
    f"${{{name}:queryparam}}"
    for name in ("datasource", "tempo_datasource", *(variable.name for variable in PATCH_VARIABLES))
)
_OPEN_TRACE = Override(
    {
        "links": [
            {
                "title": "Show the trace below",
                "url": f"/d/hitcurve-request?${{__url_time_range}}&{_KEPT}&"
                "var-trace=${__data.fields.traceIdHidden}",
            }
        ]
    },
    name="spanID",
)
"""A table of spans shows the id of the span; that of its trace is in a field that Grafana hides."""


def _search(condition: str, columns: str = _SHOWN) -> TraceQuery:
    return TraceQuery(f"{{ {_SPAN} && {condition} }} | select({columns})")


def _found(title: str, question: str, traces: TraceQuery) -> Panel:
    return Panel(
        title,
        "table",
        f"{question} A click on a span offers its trace, shown below.",
        traces=traces,
        no_value="No such request, or no spans",
        overrides=(_OPEN_TRACE,),
    )


_NOW = Row(
    "How requests fare (needs the engines' own pages)",
    (
        Panel(
            "Time to first token of requests",
            "heatmap",
            "Is there a slow group beside the fast one? Misses pay for their prefill. Where a page has exemplars "
            "(vLLM 0.32 writes none), each is a dot that leads to its trace; the searches below lead there too.",
            (
                Query(
                    either(
                        "sum by (le) (increase(vllm:time_to_first_token_seconds_bucket"
                        f"{{{_ON_PAGE}}}[$__rate_interval]))"
                    ),
                    "{{le}}",
                    heatmap=True,
                    exemplars=True,
                ),
            ),
            unit="none",
        ),
        Panel(
            "Missed tokens by reason",
            "timeseries",
            "What do requests pay for now? Choose the search below by the largest reason.",
            (
                Query(
                    rate("hitcurve_engine_miss_tokens_total", PATCH, "reason"),
                    "{{reason}}",
                    may_be_empty=NEEDS_PATCH,
                ),
            ),
            unit="count:tok/s",
            minimum=0,
            no_value="No traffic, or no engine patch",
            overrides=coloured(REASON_COLOURS),
            custom={"stacking": {"group": "A", "mode": "normal"}, "fillOpacity": 60, "lineWidth": 0},
        ),
    ),
)
_SEARCHES = Row(
    "Requests worth a look (needs the engine patch and Tempo)",
    (
        _found(
            "Waited long",
            "Which requests waited for blocks before they ran?",
            _search("span.hitcurve.wait_seconds > 1", f"span.hitcurve.wait_seconds, {_SHOWN}"),
        ),
        _found(
            "Recomputed what had been cached",
            "Which requests missed tokens that were evicted before?",
            _search("span.hitcurve.miss_tokens.capacity > 1000"),
        ),
        _found(
            "Kept apart from equal tokens",
            "Which requests missed only because adapter, salt or image differ?",
            _search("span.hitcurve.miss_tokens.isolated > 0", f"span.hitcurve.isolated_by, {_SHOWN}"),
        ),
        _found(
            "Preempted or served from stale blocks",
            "Which requests were computed twice, or found blocks of other weights of their adapter?",
            _search(
                "(span.hitcurve.preemptions > 0 || span.hitcurve.stale_hit_tokens > 0)",
                f"span.hitcurve.preemptions, span.hitcurve.stale_hit_tokens, {_SHOWN}",
            ),
        ),
    ),
)
_ONE = Row(
    "One request",
    (
        Panel(
            "Trace",
            "traces",
            "Where did the time of this request go, and what did the cache do? The trace of the field above.",
            traces=TraceQuery("$trace"),
            width=24,
            height=14,
            no_value="Choose a trace above",
        ),
    ),
)

REQUEST = Dashboard(
    "hitcurve-request",
    "hitcurve / Request",
    "Which requests are slow or costly, and what does the trace of one say? Needs the engine patch and Tempo.",
    PATCH_VARIABLES,
    (_NOW, _SEARCHES, _ONE),
    texts=(TextVariable("trace", "Trace"),),
    refresh="1m",
)
