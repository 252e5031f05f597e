"""vLLM's own lookup counters, in the unit and at the moment of a version."""

from dataclasses import dataclass

from hitcurve_simulator.vllm.request import RequestState
from hitcurve_simulator.vllm.versions import VllmRules

__all__ = ["LookupStatistics"]


@dataclass(slots=True)
class LookupStatistics:
    """Counters since start, as the engine exports them: tokens, or blocks for 0.8.5.

    Lookups of resumed requests go to ``preempted_*`` since 0.11.1. Requests that may not read the cache are
    counted apart, as neither query nor miss; 0.8.5 counts them as requests without queries.
    """

    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
    skipped_requests: int = 0
    skipped_tokens: int = 0
    external_queries: int = 0
    external_hits: int = 0
    """Tokens that a connector was asked for and brought, apart from the others; nothing where it brought none."""

    def record_lookup(
        self, rules: VllmRules, state: RequestState, hit_blocks: int, block_size: int, query_blocks: int
    ) -> None:
        """Count one lookup: of all tokens, or of ``query_blocks`` where the version counts blocks."""
        if rules.statistics_unit == "tokens":
            queries, hits = state.num_tokens, hit_blocks * block_size
        else:
            queries, hits = query_blocks, hit_blocks
        if rules.preempted_apart and state.preemptions:
            self.preempted_requests += 1
            self.preempted_queries += queries
            self.preempted_hits += hits
            return
        self.requests += 1
        self.queries += queries
        self.hits += hits

    def record_external(self, state: RequestState, hit_tokens: int, external_tokens: int) -> None:
        """Count what a connector brought for an admitted request: it was asked for all that was not found."""
        if external_tokens:
            self.external_queries += state.num_tokens - hit_tokens
            self.external_hits += external_tokens

    def record_skipped(self, state: RequestState) -> None:
        """Count one admitted request that did not look the cache up."""
        self.skipped_requests += 1
        self.skipped_tokens += state.num_tokens

    def record_skipped_attempt(self, rules: VllmRules) -> None:
        """Count an attempt to schedule a request that does not look the cache up: 0.8.5 calls it a request."""
        if rules.statistics_unit == "blocks":
            self.requests += 1
