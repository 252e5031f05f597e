"""What is read of vLLM's ``Request`` on the engine's thread, so that no event need keep the request itself.

Plain attributes cost some nanoseconds each, asking whether there is one several times that. So what every version
from 0.11.1 on has is simply read; older ones are asked.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any

from hitcurve_engine.probes.events import FREED, RawEvent

__all__ = ["end_of_any", "end_reader", "is_isolated", "skips_lookup"]


def is_isolated(request: Any) -> bool:
    """Whether adapter, salt, images or embeddings may part the blocks of a request from those of others."""
    try:
        return bool(
            request.lora_request is not None
            or request.cache_salt
            or request.mm_features
            or request.prompt_embeds is not None
        )
    except AttributeError:
        names = ("lora_request", "cache_salt", "mm_features", "mm_hashes")
        embeddings = getattr(request, "prompt_embeds", None)
        return embeddings is not None or any(getattr(request, name, None) for name in names)


def skips_lookup(request: Any) -> bool:
    """Whether the request may not read the cache: its own mark (0.11.1+), else prompt_logprobs."""
    try:
        return bool(request.skip_reading_prefix_cache)
    except AttributeError:
        parameters = getattr(request, "sampling_params", None)
        return getattr(parameters, "prompt_logprobs", None) is not None


def end_of_any(request: Any) -> RawEvent:
    """The event FREED of a request of any version. What carries a trace: its headers (0.10.2+), or extra_args."""
    carrier = getattr(request, "trace_headers", None)
    if not carrier:
        carrier = getattr(getattr(request, "sampling_params", None), "extra_args", None) or None
    return (
        FREED,
        monotonic(),
        request.request_id,
        request.status,
        getattr(request, "num_prompt_tokens", None),
        getattr(request, "num_cached_tokens", None),
        getattr(request, "num_external_computed_tokens", None),
        carrier,
        getattr(request, "arrival_time", None),
        getattr(request, "num_output_tokens", None),
        request if is_isolated(request) else None,
    )


def end_reader(request: Any) -> Callable[[Any], RawEvent]:
    """The same as ``end_of_any``, for requests that have the attributes of this one."""
    needed = ("trace_headers", "sampling_params", "num_prompt_tokens", "arrival_time", "num_output_tokens")
    counts = [hasattr(request, name) for name in ("num_cached_tokens", "num_external_computed_tokens")]
    if not all(hasattr(request, name) for name in needed) or len(set(counts)) > 1:
        return end_of_any
    has_counts = all(counts)

    def end_of(request: Any) -> RawEvent:
        carrier = request.trace_headers
        if not carrier:
            carrier = getattr(request.sampling_params, "extra_args", None) or None
        return (
            FREED,
            monotonic(),
            request.request_id,
            request.status,
            request.num_prompt_tokens,
            request.num_cached_tokens if has_counts else None,
            request.num_external_computed_tokens if has_counts else None,
            carrier,
            request.arrival_time,
            request.num_output_tokens,
            request if is_isolated(request) else None,
        )

    return end_of
