"""Defects in what is counted. The cache itself works."""

from dataclasses import replace
from typing import Any

from hitcurve_simulator.server.engine_metrics import EngineMetrics
from hitcurve_simulator.vllm import CacheManager, RequestState
from hitcurve_simulator.vllm.statistics import LookupStatistics
from hitcurve_simulator.vllm.versions import VllmRules

__all__ = [
    "CountersStuck",
    "HitsCountedTwice",
    "PreemptedCountedAsHits",
    "QueriesPerAttempt",
    "ResetClearsCounters",
]


class _Counting(CacheManager):
    """A manager with other statistics."""

    statistics_class: type[LookupStatistics] = LookupStatistics

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.statistics = self.statistics_class()


class _Twice(LookupStatistics):
    def record_lookup(
        self, rules: VllmRules, state: RequestState, hit_blocks: int, block_size: int, query_blocks: int
    ) -> None:
        super().record_lookup(rules, state, 2 * hit_blocks, block_size, query_blocks)


class HitsCountedTwice(_Counting):
    """Every hit token counts as two."""

    statistics_class = _Twice


class _Stuck(LookupStatistics):
    def record_lookup(
        self, rules: VllmRules, state: RequestState, hit_blocks: int, block_size: int, query_blocks: int
    ) -> None:
        """Nothing is ever counted."""


class CountersStuck(_Counting):
    """Queries and hits stand still while requests are served."""

    statistics_class = _Stuck


class _ResumedAsHit(LookupStatistics):
    def record_lookup(
        self, rules: VllmRules, state: RequestState, hit_blocks: int, block_size: int, query_blocks: int
    ) -> None:
        if state.preemptions:
            self.queries += state.num_tokens
            self.hits += state.num_tokens
        else:
            super().record_lookup(rules, state, hit_blocks, block_size, query_blocks)


class PreemptedCountedAsHits(_Counting):
    """A request that comes back after a preemption counts as found, with all of its tokens."""

    statistics_class = _ResumedAsHit


class QueriesPerAttempt(CacheManager):
    """A request that waits is counted at every attempt to schedule it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.rules = replace(self.rules, counted_at_admission=False)


class ResetClearsCounters(EngineMetrics):
    """A reset of the cache takes queries and hits back to zero."""

    def reset(self) -> None:
        super().reset()
        for name in ("prefix_cache_queries", "prefix_cache_hits"):
            self.page.restart(f"vllm:{name}")
            self.page.restart(f"vllm:gpu_{name}")
