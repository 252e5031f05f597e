"""Alerts on recorded rates; most need no exporter."""

from hitcurve_dashboards.rules.recording import either
from hitcurve_dashboards.rules.records import Alert, Objective, RuleGroup, Severity

__all__ = ["rate_alerts"]

_PAGE = "{{ $labels.instance }} (engine {{ $labels.engine }}, {{ $labels.model_name }})"
_HIT, _QUERY = "instance_engine:vllm_hit_tokens:rate5m", "instance_engine:vllm_query_tokens:rate5m"
_BUSY = "100"
"""Query tokens per second below which a rate of five minutes is mostly noise."""

_STEP_DOWN = (
    f"({_HIT} / ({_QUERY} > {_BUSY})) < 0.5 * "
    f"(sum_over_time({_HIT}[1d] offset 1h) / (sum_over_time({_QUERY}[1d] offset 1h) > 0) > 0.1)"
)
_TARGET_RATE = (
    "(sum by (job, model_name, target) (target_engine:hitcurve_hit_tokens:rate5m) / "
    f"(sum by (job, model_name, target) (target_engine:hitcurve_query_tokens:rate5m) > {_BUSY}))"
)
_SKEW = f"max by (job, model_name) ({_TARGET_RATE}) - min by (job, model_name) ({_TARGET_RATE}) > 0.3"
_KEY = "on (job, instance, engine, model_name)"
_OLD_LOOKUPS = either("rate(vllm:gpu_prefix_cache_queries_total[5m])")
_OFF = (
    f"instance_engine:vllm_prompt_tokens:rate5m > 0 unless {_KEY} (instance_engine:vllm_query_tokens:rate5m > 0) "
    f"unless {_KEY} (({_OLD_LOOKUPS}) > 0)"
)
_PRESSURE = (
    f"instance_engine:vllm_preemptions:rate5m > 0 and {_KEY} (({either('vllm:kv_cache_usage_perc')}) > 0.95)"
)


def rate_alerts(objective: Objective) -> RuleGroup:
    """The group; the burn rates follow from the objective."""
    return RuleGroup(
        "hitcurve-alert-rates",
        (
            Alert(
                "PrefixCacheStepDown",
                _STEP_DOWN,
                "30m",
                "warning",
                f"The hit rate of {_PAGE} is half of what it was the day before.",
                "It is {{ $value | humanizePercentage }} now, less than half of its own rate over the day before.",
                "prefix-cache-step-down",
            ),
            Alert(
                "PrefixCacheReplicaSkew",
                _SKEW,
                "30m",
                "warning",
                "Replicas of {{ $labels.model_name }} differ widely in their hit rate.",
                "Best and worst replica are {{ $value | humanizePercentage }} apart: requests go to replicas "
                "that do not have their prefixes.",
                "prefix-cache-replica-skew",
            ),
            Alert(
                "PrefixCacheOff",
                _OFF,
                "15m",
                "warning",
                f"{_PAGE} serves prompts and never looks its prefix cache up.",
                "Prefix caching is switched off, or every request asks not to read the cache.",
                "prefix-cache-off",
            ),
            Alert(
                "KvPoolPressure",
                _PRESSURE,
                "10m",
                "warning",
                f"The KV pool of {_PAGE} is full and requests are preempted.",
                "Preempted requests repeat their prefill, and cached blocks find no room.",
                "kv-pool-pressure",
            ),
            _burn(objective, "TtftBudgetBurnsFast", "5m", "1h", 14.4, "2m", "critical"),
            _burn(objective, "TtftBudgetBurnsSlowly", "30m", "6h", 6, "15m", "warning"),
        ),
    )


def _burn(
    objective: Objective, name: str, short: str, long: str, factor: float, hold: str, severity: Severity
) -> Alert:
    """Both windows burn the error budget ``factor`` times as fast as the objective allows."""
    allowed = f"{factor * (1 - objective.target):.6g}"

    def burning(window: str) -> str:
        served = f"model:vllm_ttft_requests:rate{window}"
        return f"1 - model:vllm_ttft_good_requests:rate{window} / ({served} > 0) > {allowed}"

    return Alert(
        name,
        f"({burning(long)}) and ({burning(short)})",
        hold,
        severity,
        "Too many first tokens of {{ $labels.model_name }} come late.",
        f"{{{{ $value | humanizePercentage }}}} of the requests of {long} waited longer than {objective.bound} s "
        f"for the first token; the objective allows {(1 - objective.target) * 100:.3g} %.",
        "ttft-budget-burns",
    )
