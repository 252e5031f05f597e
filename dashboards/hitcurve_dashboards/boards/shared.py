"""Selectors, variables, annotations and expressions that several dashboards use.

The key of a replica is ``target`` on what the exporter says and ``instance`` on what an engine's own page says:
``instance`` of an exporter's series is the exporter. ``model_name`` is absent where a page names no model and
``engine`` on some old pages, so "All" of these two is ``.*``.
"""

from hitcurve_dashboards.grafana.records import Annotation, Variable

__all__ = [
    "CUTS",
    "ENGINE",
    "EXPORTER_VARIABLES",
    "JOB",
    "NEEDS_PATCH",
    "PAGE",
    "PAGE_VARIABLES",
    "PATCH",
    "PATCH_VARIABLES",
    "TARGET",
    "by_adapter",
    "codes",
    "either",
    "increase",
    "rate",
    "ratio",
]

ENGINE = 'job=~"$job",target=~"$target",engine=~"$engine",model_name=~"$model"'
"""Selects what the exporter says about engines."""
TARGET = 'job=~"$job",target=~"$target"'
"""Selects what the exporter says about targets."""
JOB = 'job=~"$job"'
"""Selects what the exporter says about the fleet and itself."""
PAGE = 'job=~"$job",instance=~"$instance",engine=~"$engine",model_name=~"$model"'
"""Selects what an engine's own page says."""

_COUNTER = "hitcurve_query_tokens_total"

EXPORTER_VARIABLES: tuple[Variable, ...] = (
    Variable("job", "Job", "hitcurve_up", "job"),
    Variable("model", "Model", f'{_COUNTER}{{job=~"$job"}}', "model_name", ".*"),
    Variable("target", "Replica", f'{_COUNTER}{{job=~"$job",model_name=~"$model"}}', "target"),
    Variable(
        "engine", "Engine", f'{_COUNTER}{{job=~"$job",model_name=~"$model",target=~"$target"}}', "engine", ".*"
    ),
)
_EITHER_USAGE = '{__name__=~"vllm[:_]kv_cache_usage_perc"'
PAGE_VARIABLES: tuple[Variable, ...] = (
    Variable("job", "Job", f"{_EITHER_USAGE}}}", "job"),
    Variable("model", "Model", f'{_EITHER_USAGE},job=~"$job"}}', "model_name", ".*"),
    Variable("instance", "Instance", f'{_EITHER_USAGE},job=~"$job",model_name=~"$model"}}', "instance"),
    Variable(
        "engine",
        "Engine",
        f'{_EITHER_USAGE},job=~"$job",model_name=~"$model",instance=~"$instance"}}',
        "engine",
        ".*",
    ),
)

PATCH = 'job=~"$job",instance=~"$instance",engine=~"$engine",model_name=~"$model",adapter=~"$adapter"'
"""Selects what the engine patch says by adapter."""
NEEDS_PATCH = "no engine has the engine patch"
_PATCHED = "hitcurve_engine_query_tokens_total"
PATCH_VARIABLES: tuple[Variable, ...] = tuple(
    Variable(name, title, f"{_PATCHED}{selector}", label, all_value, may_be_empty=NEEDS_PATCH)
    for name, title, label, all_value, selector in (
        ("job", "Job", "job", ".+", ""),
        ("model", "Model", "model_name", ".*", '{job=~"$job"}'),
        ("instance", "Instance", "instance", ".+", '{job=~"$job",model_name=~"$model"}'),
        ("engine", "Engine", "engine", ".*", '{job=~"$job",model_name=~"$model",instance=~"$instance"}'),
        (
            "adapter",
            "Adapter",
            "adapter",
            ".*",
            '{job=~"$job",model_name=~"$model",instance=~"$instance",engine=~"$engine"}',
        ),
    )
)

_NO_CUT = "no engine restarted and no cache was reset"
CUTS: tuple[Annotation, ...] = (
    Annotation(
        "Restarts",
        "#5794F2",
        f"increase(hitcurve_engine_restarts_total{{{ENGINE}}}[$__rate_interval]) > 0",
        "{{target}} restarted",
        may_be_empty=_NO_CUT,
    ),
    Annotation(
        "Cache resets",
        "#E02F44",
        f"increase(hitcurve_cache_resets_total{{{ENGINE}}}[$__rate_interval]) > 0",
        "{{target}}: cache reset",
        may_be_empty=_NO_CUT,
    ),
    Annotation("Chaos", "#B877D9", tags=("hitcurve-chaos",)),
)


def rate(metric: str, selector: str, by: str = "") -> str:
    """Sum of the per-second increase of a counter; ``by`` keeps these labels."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{selector}}}[$__rate_interval]))"


def increase(metric: str, selector: str, by: str) -> str:
    """Sum of the increase of a counter between two points of the graph."""
    return f"sum by ({by}) (increase({metric}{{{selector}}}[$__rate_interval]))"


def ratio(numerator: str, denominator: str, selector: str, by: str = "") -> str:
    """Ratio of the sums of two counters over the same series; no value where the denominator stands still."""
    return f"{rate(numerator, selector, by)} / ({rate(denominator, selector, by)} > 0)"


def by_adapter(expression: str) -> str:
    """Series by adapter; the base model has no adapter, and a series without a name would have no legend."""
    return f'label_replace({expression}, "adapter", "base model", "adapter", "")'


def either(expression: str) -> str:
    """An expression over ``vllm:`` names, and the same over ``vllm_``, which some scrapes rename them to."""
    return f"({expression} or {expression.replace('vllm:', 'vllm_')})"


def codes(metric: str, label: str, numbers: dict[str, int], selector: str) -> str:
    """One series per engine: the number of the label value whose series is 1 (a state timeline plots it)."""
    parts = " or ".join(
        f'{number} * {metric}{{{label}="{value}",{selector}}}' for value, number in numbers.items()
    )
    return f"sum by (target, engine) ({parts}) > 0"
