"""Is the pool large enough for the traffic, and are its blocks of a fitting size?"""

from collections.abc import Iterator, Mapping
from typing import Final

from hitcurve.doctor.checks.where import is_vllm, name_of
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said
from hitcurve.doctor.observed import Engine

__all__ = ["POOL"]

_QUERIES: Final = "hitcurve_engine_query_tokens_total"
_CURVE_QUERIES: Final = "hitcurve_engine_pool_curve_query_tokens_total"
_ENOUGH_TOKENS: Final = 10_000
_CAPACITY_SHARE: Final = 0.05
_WORTH_IT: Final = 0.02
_FULL_MEMORY: Final = 0.95
_PREEMPTED_SHARE: Final = 0.01
_ENOUGH_REQUESTS: Final = 50
_ROUNDING_SHARE: Final = 0.05


def _working_set(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here = (name_of(replica, engine),)
        queries = engine.patch.get(_QUERIES)
        if queries is None:
            yield NotJudged(here, "the engine patch, which tells evicted tokens from new ones")
        elif queries < _ENOUGH_TOKENS:
            yield NotJudged(here, f"traffic: {queries:.0f} of {_ENOUGH_TOKENS} tokens were looked up")
        else:
            lost = engine.patch_reasons.get("capacity", 0.0) / queries
            if lost >= _CAPACITY_SHARE:
                yield Finding(
                    here,
                    f"{lost:.1%} of all query tokens had been cached and were evicted before they were asked for "
                    "again",
                    f"give the pool more blocks: {_how_to_grow(engine)}{_gain(engine)}",
                    {"capacity_miss_share": lost},
                )


def _gain(engine: Engine) -> str:
    """What a larger pool would bring, where the patch estimates it."""
    queries = engine.patch.get(_CURVE_QUERIES, 0.0)
    rates = {pool: hits / queries for pool, hits in engine.patch_pools.items()} if queries else {}
    now, twice = _rate(rates, "1"), _rate(rates, "2")
    if now is None or twice is None or twice - now < _WORTH_IT:
        return ""
    return f"; a pool of twice the size would hit {twice:.1%} instead of {now:.1%}"


def _rate(rates: Mapping[str, float], times: str) -> float | None:
    return next(
        (rate for pool, rate in rates.items() if pool.removesuffix("x").rstrip("0").rstrip(".") == times), None
    )


def _preemptions(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here = (name_of(replica, engine),)
        preempted, requests = engine.sample.preemptions, engine.sample.requests
        if preempted is None or requests is None:
            yield NotJudged(here, "counters of preemptions and requests")
        elif requests < _ENOUGH_REQUESTS:
            yield NotJudged(here, f"traffic: {requests:.0f} of {_ENOUGH_REQUESTS} requests")
        elif preempted / requests >= _PREEMPTED_SHARE:
            share = preempted / requests
            yield Finding(
                here,
                f"{preempted:.0f} preemptions in {requests:.0f} requests since the start: running requests alone "
                "outgrow the pool, and nothing stays cached",
                f"lower {'--max-num-seqs' if is_vllm(engine) else '--max-running-requests'}, or "
                f"{_how_to_grow(engine)}",
                {"preemptions_per_request": share},
            )


def _how_to_grow(engine: Engine) -> str:
    """Advice that does not ask for what is already so."""
    if not is_vllm(engine):
        return "raise --mem-fraction-static, or use a smaller model or more GPUs"
    used = _number(engine.config.get("gpu_memory_utilization"))
    override = engine.config.get("num_gpu_blocks_override")
    if override not in (None, "None"):
        return f"raise or drop --num-gpu-blocks-override ({override} now)"
    if used is not None and used < _FULL_MEMORY:
        return f"raise --gpu-memory-utilization ({used:g} now)"
    if engine.config.get("cache_dtype") == "auto":
        return "use --kv-cache-dtype fp8, which holds twice the tokens, a smaller model or more GPUs"
    return "use a smaller model or more GPUs"


def _block_size(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here = (name_of(replica, engine),)
        shortest, prompts = engine.sample.min_reusable_prefix_tokens, engine.prompts
        mean = None if prompts is None or prompts.requests < _ENOUGH_REQUESTS else prompts.mean
        if shortest is None or mean is None:
            yield NotJudged(here, "the shortest reusable prefix, or enough prompts")
        elif mean > shortest and shortest / 2 / mean >= _ROUNDING_SHARE:
            share = shortest / 2 / mean
            yield Finding(
                here,
                f"hits come in steps of {shortest} tokens and prompts have {mean:.0f} on average, so about "
                f"{share:.0%} of a shared prompt is computed again only because of rounding",
                "a smaller --block-size loses less; vLLM's default on GPUs is 16",
                {"min_reusable_prefix_tokens": float(shortest), "mean_prompt_tokens": mean, "share": share},
                "note",
            )


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


POOL: Final = (
    Check("pool-too-small", "Does the pool hold what is asked for again?", _working_set),
    Check("preemptions", "Do running requests fit into the pool?", _preemptions),
    Check("block-size", "Is the block size small against the prompts?", _block_size),
)
