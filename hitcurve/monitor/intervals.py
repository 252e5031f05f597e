"""Building the interval between two good scrapes of one engine, with what is odd about it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from hitcurve import flags
from hitcurve.counters import CounterMap, LookupPair, LookupsAdded, hit_rate
from hitcurve.reading import Interval, ServedRate
from hitcurve.sample import EngineSample

__all__ = ["EngineCounters", "Progress"]

_LOOKUPS_TOLERANCE: Final = 1.1
"""Lookups count before the prefill and prompt tokens after it, so the two never agree exactly."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What happened to one engine since its last good scrape. ``None`` where it is unknown."""

    interval: Interval | None = None
    requests: float | None = None
    preemptions: float | None = None
    evictions: float | None = None
    ttft_seconds: float | None = None
    resets: float | None = None
    restarts: int = 0


class EngineCounters:
    """All counters of one engine, corrected for restarts together."""

    def __init__(self, *, alternating_starts: Collection[float] = ()) -> None:
        self._lookups = LookupPair(alternating_starts=alternating_starts)
        self._simple = CounterMap()
        self._tiers = CounterMap()
        self._last: EngineSample | None = None
        self._looked_up = 0.0
        self._prompt_tokens = 0.0

    @property
    def alternating_starts(self) -> frozenset[float]:
        """Start times of processes that answered in turn under this engine's name."""
        return self._lookups.alternating_starts

    def add(self, sample: EngineSample) -> Progress:
        """Take a sample; what was added since the one before."""
        last, lookups = self._last, sample.lookups
        if lookups is None:
            return Progress()
        added = self._lookups.add(lookups, start_time_s=sample.start_time_s, at_s=sample.at_s)
        restarted = added is not None and added.restarts > 0
        if added is None or not added.comparable:
            self._simple.forget()
            self._tiers.forget()
            restarted = False
        simple = self._simple.add(_simple_counters(sample), restarted=restarted)
        tiers = self._tiers.add(_tier_counters(sample), restarted=restarted)
        self._last = sample
        if added is None or last is None:
            return Progress()
        return Progress(
            interval=self._interval(added, simple, tiers, last, sample),
            requests=simple["requests"],
            preemptions=simple["preemptions"],
            evictions=simple["evictions"],
            ttft_seconds=simple["ttft_seconds"],
            resets=simple["resets"],
            restarts=added.restarts,
        )

    def _interval(
        self,
        added: LookupsAdded,
        simple: Mapping[str, float | None],
        tiers: Mapping[str, float | None],
        last: EngineSample,
        sample: EngineSample,
    ) -> Interval:
        found = [*added.flags, *sample.flags]
        if _stalled(added, simple["requests"], last, sample):
            found.append(flags.COUNTERS_STALLED)
        if self._lookups_exceed_prompt_tokens(added.queries, simple["prompt_tokens"]):
            found.append(flags.LOOKUPS_EXCEED_PROMPT_TOKENS)
        if _external_exceeds_misses(added, simple["external_hits"]):
            found.append(flags.EXTERNAL_EXCEEDS_MISSES)
        return Interval(
            from_s=last.at_s,
            to_s=sample.at_s,
            queries=added.queries,
            hits=added.hits,
            hit_rate=added.hit_rate,
            source_unit="tokens" if sample.lookups is None else sample.lookups.unit,
            requests=simple["requests"],
            restarts=added.restarts,
            flags=tuple(dict.fromkeys(found)),
            served=_served(simple["prompt_tokens"], simple["cached_tokens"]),
            tiers=_tiers(added, simple["external_hits"], tiers),
        )

    def _lookups_exceed_prompt_tokens(self, queries: float | None, prompt_tokens: float | None) -> bool:
        """vLLM up to 0.26 looks a waiting request up at every scheduling attempt and counts each."""
        if queries is None or prompt_tokens is None:
            return False
        self._looked_up += queries
        self._prompt_tokens += prompt_tokens
        return (
            prompt_tokens > 0
            and queries > _LOOKUPS_TOLERANCE * prompt_tokens
            and self._looked_up > _LOOKUPS_TOLERANCE * self._prompt_tokens
        )


def _simple_counters(sample: EngineSample) -> dict[str, float | None]:
    served, external = sample.served, sample.external
    return {
        "requests": sample.requests,
        "preemptions": sample.preemptions,
        "evictions": sample.evictions,
        "ttft_seconds": sample.ttft_seconds,
        "resets": sample.resets,
        "prompt_tokens": None if served is None else served.prompt_tokens,
        "cached_tokens": None if served is None else served.cached_tokens,
        "external_hits": None if external is None else external.hits,
    }


def _tier_counters(sample: EngineSample) -> Mapping[str, float]:
    return {} if sample.tier_hits is None else sample.tier_hits


def _served(prompt_tokens: float | None, cached_tokens: float | None) -> ServedRate | None:
    if prompt_tokens is None or cached_tokens is None:
        return None
    return ServedRate(prompt_tokens, cached_tokens, hit_rate(prompt_tokens, cached_tokens))


def _tiers(
    added: LookupsAdded, external_hits: float | None, tiers: Mapping[str, float | None]
) -> dict[str, float] | None:
    """Hit tokens of each tier / query tokens.

    External lookups are never a denominator: older vLLM counts all prompt tokens there, newer ones only what
    the local cache missed (vllm-project/vllm#30522). Tiers that claim more than was looked up have no value.
    """
    if not added.queries or added.hits is None:
        return None
    known = {tier: value for tier, value in tiers.items() if value is not None}
    if not known and external_hits is not None:
        known = {"device": added.hits, "external": external_hits}
    if not known or sum(known.values()) > added.queries:
        return None
    return {tier: value / added.queries for tier, value in known.items()}


def _stalled(added: LookupsAdded, requests: float | None, last: EngineSample, sample: EngineSample) -> bool:
    """Requests waited at both ends and nothing moved between them."""
    waited = bool(last.waiting) and bool(sample.waiting)
    return waited and added.comparable and added.queries == 0 and added.hits == 0 and not requests


def _external_exceeds_misses(added: LookupsAdded, external_hits: float | None) -> bool:
    if external_hits is None or added.queries is None or added.hits is None:
        return False
    return external_hits > max(added.queries - added.hits, 0.0)
