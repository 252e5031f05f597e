"""Is the prefix cache on, and does it do anything?"""

from collections.abc import Iterator
from typing import Final

from hitcurve.doctor.checks.where import name_of
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said
from hitcurve.doctor.observed import Engine

__all__ = ["CACHING"]

_ENOUGH_REQUESTS: Final = 50
_ENOUGH_TOKENS: Final = 10_000
_MOSTLY: Final = 0.5


def _readable(fleet: Fleet) -> Iterator[Said]:
    for replica in fleet.replicas:
        if replica.failure is not None:
            yield NotJudged((replica.name,), replica.failure, essential=True)


def _off(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here = (name_of(replica, engine),)
        enabled = engine.config.get("enable_prefix_caching")
        if enabled == "False":
            yield Finding(
                here,
                "prefix caching is off, so every token of every prompt is computed",
                "start vLLM without --no-enable-prefix-caching",
                {"enable_prefix_caching": enabled},
                "error",
            )
        elif enabled != "True" and not _hits(engine):
            yield NotJudged(here, "the page does not say whether prefix caching is on", essential=True)


def _without_effect(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here = (name_of(replica, engine),)
        lookups, requests = engine.sample.lookups, engine.sample.requests
        if engine.config.get("enable_prefix_caching") == "False":
            continue
        if lookups is None or lookups.tokens_per_unit is None:
            yield NotJudged(here, "lookups in tokens")
            continue
        tokens = lookups.queries * lookups.tokens_per_unit
        if tokens < _ENOUGH_TOKENS or (requests is not None and requests < _ENOUGH_REQUESTS):
            yield NotJudged(here, f"traffic: {tokens:.0f} tokens were looked up, {_ENOUGH_TOKENS} are needed")
        elif lookups.hits == 0 and not _too_short(engine):
            yield Finding(
                here,
                f"{tokens:.0f} tokens were looked up since the start and none was found",
                "compare two prompts that should share a prefix: a date or an id at their head, another chat "
                "template "
                "or another salt per request makes every prompt new ('hitcurve estimate' shows where they part)",
                {"query_tokens": tokens, "hit_tokens": 0.0},
            )


def _short_prefix(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here = (name_of(replica, engine),)
        shortest, prompts = engine.sample.min_reusable_prefix_tokens, engine.prompts
        if shortest is None or prompts is None:
            yield NotJudged(here, "the shortest reusable prefix, or the lengths of prompts")
        elif prompts.requests < _ENOUGH_REQUESTS:
            yield NotJudged(here, f"traffic: {prompts.requests:.0f} of {_ENOUGH_REQUESTS} requests")
        elif _too_short(engine):
            share = prompts.share_at_most(shortest) or 0.0
            yield Finding(
                here,
                f"{share:.0%} of the prompts are not longer than the shortest reusable prefix of {shortest} "
                "tokens "
                "and can never hit",
                "make the block size smaller (--block-size), or put more of what prompts share at their head",
                {"share": share, "min_reusable_prefix_tokens": float(shortest)},
            )


def _too_short(engine: Engine) -> bool:
    shortest, prompts = engine.sample.min_reusable_prefix_tokens, engine.prompts
    if shortest is None or prompts is None or prompts.requests < _ENOUGH_REQUESTS:
        return False
    share = prompts.share_at_most(shortest)
    return share is not None and share >= _MOSTLY


def _hits(engine: Engine) -> bool:
    return engine.sample.lookups is not None and engine.sample.lookups.hits > 0


CACHING: Final = (
    Check("page-unreadable", "Can the metrics of every replica be read?", _readable),
    Check("caching-off", "Is prefix caching on?", _off),
    Check("caching-without-effect", "Was anything ever found in the cache?", _without_effect),
    Check("short-prefix", "Are prompts longer than the shortest prefix that can be found again?", _short_prefix),
)
