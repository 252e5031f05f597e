"""The metric families of vLLM's /metrics page, by generation: names, kinds, labels, buckets.

Names, kinds, labels, units and buckets are those of the named release (0.32.0: ``vllm/v1/metrics/loggers.py`` and
``buckets.py``, compared with a recorded page); the help texts are our own. Counter names carry no ``_total`` here,
the exposition adds it. ``vllm:iteration_tokens_total`` is a histogram in spite of its name.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["PATCHED", "V0_8_5", "V0_32_0", "Family", "token_buckets"]

Kind = Literal["counter", "gauge", "histogram"]
Buckets = tuple[float, ...] | Literal["tokens"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    ``label`` and ``values`` name a label beside the common ``labels``, and the values that exist from the start.
    ``buckets`` is "tokens" where they follow from the longest sequence (``token_buckets``).
    """

    kind: Kind
    name: str
    help: str
    buckets: Buckets = ()
    labels: tuple[str, ...] = ("model_name", "engine")
    label: str | None = None
    values: tuple[str, ...] = ()


def token_buckets(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, ... up to the longest sequence."""
    bounds = (mantissa * 10**exponent for exponent in range(20) for mantissa in (1, 2, 5))
    return tuple(float(bound) for bound in bounds if bound <= max_model_len)


# fmt: off
_LATENCY = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
            960.0, 1920.0, 7680.0)
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
                40.0, 80.0, 160.0, 640.0, 2560.0)
_BETWEEN_TOKENS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
                   40.0, 80.0)
_STEP_TOKENS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
_SAMPLES = (1.0, 2.0, 5.0, 10.0, 20.0)
_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)

_RUNNING = Family("gauge", "vllm:num_requests_running", "Requests that are being computed.")
_WAITING = Family("gauge", "vllm:num_requests_waiting", "Requests that wait to be scheduled.")
_BY_REASON = Family("gauge", "vllm:num_requests_waiting_by_reason",
                    "Waiting requests: for capacity, or deferred (adapter slots).",
                    label="reason", values=("capacity", "deferred"))
_PREEMPTED = Family("counter", "vllm:num_preemptions", "Preemptions since start.")
_PROMPT = Family("counter", "vllm:prompt_tokens", "Prompt tokens of prefilled requests, cached ones included.")
_GENERATED = Family("counter", "vllm:generation_tokens", "Generated tokens.")
_REQUEST_PROMPT = Family("histogram", "vllm:request_prompt_tokens", "Prompt tokens of a request.", "tokens")
_REQUEST_GENERATED = Family("histogram", "vllm:request_generation_tokens", "Generated tokens of one.", "tokens")
_STEP = Family("histogram", "vllm:iteration_tokens_total", "Tokens computed in a step.", _STEP_TOKENS)
_LONGEST = Family("histogram", "vllm:request_max_num_generation_tokens",
                  "Generated tokens of the longest sample of a request.", "tokens")
_N = Family("histogram", "vllm:request_params_n", "Samples asked for.", _SAMPLES)
_MAX_TOKENS = Family("histogram", "vllm:request_params_max_tokens", "max_tokens asked for.", "tokens")
_TTFT = Family("histogram", "vllm:time_to_first_token_seconds", "Arrival to first token.", _FIRST_TOKEN)
_PHASES = (
    Family("histogram", "vllm:e2e_request_latency_seconds", "Arrival to last token.", _LATENCY),
    Family("histogram", "vllm:request_queue_time_seconds", "Time spent waiting.", _LATENCY),
    Family("histogram", "vllm:request_inference_time_seconds", "Scheduled to last token.", _LATENCY),
    Family("histogram", "vllm:request_prefill_time_seconds", "Scheduled to first token.", _LATENCY),
    Family("histogram", "vllm:request_decode_time_seconds", "First to last token.", _LATENCY),
)

V0_32_0: tuple[Family, ...] = (
    _RUNNING,
    _WAITING,
    _BY_REASON,
    Family("gauge", "vllm:engine_sleep_state", "1 for the state the engine is in.",
           label="sleep_state", values=("awake", "weights_offloaded", "discard_all")),
    Family("gauge", "vllm:kv_cache_usage_perc", "Share of the KV blocks that requests hold; 1 is all of them."),
    Family("counter", "vllm:prefix_cache_queries", "Tokens looked up in the prefix cache."),
    Family("counter", "vllm:prefix_cache_hits", "Tokens found in the prefix cache."),
    Family("counter", "vllm:external_prefix_cache_queries", "Tokens looked up outside the engine."),
    Family("counter", "vllm:external_prefix_cache_hits", "Tokens found outside the engine."),
    Family("counter", "vllm:mm_cache_queries", "Items looked up in the multi-modal cache."),
    Family("counter", "vllm:mm_cache_hits", "Items found in the multi-modal cache."),
    _PREEMPTED,
    _PROMPT,
    Family("counter", "vllm:prompt_tokens_by_source", "Prompt tokens by where their KV came from.",
           label="source", values=("local_compute", "local_cache_hit", "external_kv_transfer")),
    Family("counter", "vllm:prompt_tokens_cached", "Prompt tokens that came from any cache."),
    Family("counter", "vllm:prompt_tokens_cached_by_source", "Hit tokens by the tier they came from.",
           label="source", values=("device", "host", "p2p", "disk", "external_unspecified")),
    _GENERATED,
    Family("counter", "vllm:request_success", "Finished requests by reason.",
           label="finished_reason", values=("stop", "length", "abort", "error", "repetition")),
    Family("counter", "vllm:admission_rejections", "Requests refused for a full queue.", labels=("model_name",),
           label="reason", values=("max_num_queued_reqs", "max_num_queued_tokens")),
    _REQUEST_PROMPT,
    _REQUEST_GENERATED,
    _STEP,
    _LONGEST,
    _N,
    _MAX_TOKENS,
    _TTFT,
    Family("histogram", "vllm:inter_token_latency_seconds", "Time between two tokens.", _BETWEEN_TOKENS),
    Family("histogram", "vllm:request_time_per_output_token_seconds", "Mean time per token after the first.",
           _BETWEEN_TOKENS),
    *_PHASES,
    Family("histogram", "vllm:request_num_preemptions", "Preemptions of a request.", _PREEMPTIONS),
    Family("histogram", "vllm:request_prefill_kv_computed_tokens", "Prompt tokens a request had to compute.",
           "tokens"),
)

V0_8_5: tuple[Family, ...] = (
    _RUNNING,
    _WAITING,
    Family("gauge", "vllm:gpu_cache_usage_perc", "Share of the KV blocks that requests hold; 1 is all of them."),
    Family("counter", "vllm:gpu_prefix_cache_queries", "Blocks looked up in the prefix cache."),
    Family("counter", "vllm:gpu_prefix_cache_hits", "Blocks found in the prefix cache."),
    _PREEMPTED,
    _PROMPT,
    _GENERATED,
    Family("counter", "vllm:request_success", "Finished requests by reason.",
           label="finished_reason", values=("stop", "length", "abort")),
    _REQUEST_PROMPT,
    _REQUEST_GENERATED,
    _STEP,
    _LONGEST,
    _N,
    _MAX_TOKENS,
    _TTFT,
    Family("histogram", "vllm:time_per_output_token_seconds", "Time between two tokens.", _BETWEEN_TOKENS),
    *_PHASES,
)

PATCHED: tuple[Family, ...] = (
    Family("counter", "hitcurve_engine_resets", "Prefix cache resets that cleared the cache."),
    Family("counter", "hitcurve_engine_evicted_blocks", "Cached blocks evicted to make room."),
)
# fmt: on
