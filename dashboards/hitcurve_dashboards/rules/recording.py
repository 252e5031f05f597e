"""Recording rules: numerator and denominator apart, per replica first, then summed.

A ratio is formed where it is used, from recorded sums, so that it may be summed over any labels and any time:
``sum_over_time(hit[1d]) / sum_over_time(query[1d])`` is weighted by tokens, the mean of recorded ratios is not.
A rate is taken per series before it is summed, so that the restart of one replica is no fall of the total.

``hitcurve_*`` comes from the exporter, ``vllm_*`` from the engines' own pages. Where Prometheus scrapes both they
say the same twice, so they are never added.
"""

from hitcurve_dashboards.rules.records import Objective, Recording, RuleGroup

__all__ = ["recording_groups"]

EXPORTER_BY = "job, target, engine, model_name"
PAGE_BY = "job, instance, engine, model_name"
BURN_WINDOWS = ("5m", "30m", "1h", "6h")

_EXPORTER = (
    ("hitcurve_query_tokens", "hitcurve_query_tokens_total"),
    ("hitcurve_hit_tokens", "hitcurve_hit_tokens_total"),
)
_PAGES = (
    ("vllm_query_tokens", "vllm:prefix_cache_queries_total"),
    ("vllm_hit_tokens", "vllm:prefix_cache_hits_total"),
    ("vllm_prompt_tokens", "vllm:prompt_tokens_total"),
    ("vllm_preemptions", "vllm:num_preemptions_total"),
)


def recording_groups(objective: Objective) -> tuple[RuleGroup, ...]:
    """The groups of recording rules."""
    return (
        RuleGroup("hitcurve-record-exporter", tuple(_from_exporter())),
        RuleGroup("hitcurve-record-pages", tuple(_from_pages())),
        RuleGroup("hitcurve-record-patch", tuple(_from_patch())),
        RuleGroup("hitcurve-record-ttft", tuple(_ttft(objective))),
    )


def either(expression: str) -> str:
    """The expression over ``vllm:`` names, or over ``vllm_``, as some scrapes spell them."""
    return f"{expression} or {expression.replace('vllm:', 'vllm_')}"


def _from_exporter() -> list[Recording]:
    replicas = [
        Recording(f"target_engine:{name}:rate5m", f"sum by ({EXPORTER_BY}) (rate({metric}[5m]))")
        for name, metric in _EXPORTER
    ]
    models = [
        Recording(f"model:{name}:rate5m", f"sum by (job, model_name) (target_engine:{name}:rate5m)")
        for name, _ in _EXPORTER
    ]
    return [*replicas, *models]


def _from_pages() -> list[Recording]:
    replicas = [
        Recording(
            f"instance_engine:{name}:rate5m",
            f"sum by ({PAGE_BY}) ({either(f'rate({metric}[5m])')})",
        )
        for name, metric in _PAGES
    ]
    models = [
        Recording(f"model:{name}:rate5m", f"sum by (job, model_name) (instance_engine:{name}:rate5m)")
        for name, _ in _PAGES
    ]
    return [*replicas, *models]


def _from_patch() -> list[Recording]:
    """What the engine patch adds to the pages."""
    parts = (
        ("query_tokens", "hitcurve_engine_query_tokens_total"),
        ("capacity_miss_tokens", 'hitcurve_engine_miss_tokens_total{reason="capacity"}'),
    )
    return [
        Recording(
            f"instance_engine:hitcurve_engine_{name}:rate5m",
            f"sum by ({PAGE_BY}) (rate({series}[5m]))",
            "no engine has the engine patch",
        )
        for name, series in parts
    ]


def _ttft(objective: Objective) -> list[Recording]:
    series = "vllm:time_to_first_token_seconds"
    rules = []
    for window in BURN_WINDOWS:
        served = either(f"rate({series}_count[{window}])")
        good = either(f'rate({series}_bucket{{le="{objective.bound}"}}[{window}])')
        rules.append(Recording(f"model:vllm_ttft_requests:rate{window}", f"sum by (job, model_name) ({served})"))
        rules.append(
            Recording(f"model:vllm_ttft_good_requests:rate{window}", f"sum by (job, model_name) ({good})")
        )
    return rules
