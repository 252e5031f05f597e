"""vLLM pages of both metric generations (0.8.5 to 0.33) to samples.

What differs between versions is listed in ``hitcurve.readers.vllm_names`` and, for the unit of the old
``gpu_prefix_cache_*`` counters, in ``hitcurve.readers.vllm_unit``.
"""

from collections.abc import Mapping

from hitcurve import flags
from hitcurve.readers import vllm_facts, vllm_unit
from hitcurve.readers.engines import EngineLabels, MetricTable, engine_ids, is_count
from hitcurve.readers.exposition import Page, Series
from hitcurve.readers.refusal import PageRefused
from hitcurve.readers.vllm_names import spellings
from hitcurve.sample import EngineSample, ExplainedLookups, LookupCounters, ServedCounters, SourceUnit

__all__ = ["LOOKED_FOR", "read_vllm"]

LOOKED_FOR = "vllm:prefix_cache_queries_total"
_SPLIT_BY = frozenset({"pid", "le", "source", "finished_reason", "adapter", "reason"})
_LOOKUPS = (
    ("prefix_cache_queries", "prefix_cache_hits"),
    ("gpu_prefix_cache_queries", "gpu_prefix_cache_hits"),
)
_DIRECT_LABELS = frozenset({"engine", "model_name"})
_TIERS = {"external_unspecified": "external"}


def read_vllm(page: Page, *, at_s: float, monotonic_s: float) -> tuple[EngineSample, ...]:
    """One sample per engine that prints lookup counters; none where the page has no such counters.

    Raises PageRefused where no engine has both counters of the pair: vLLM prints them together, the rest is gone.
    """
    table = MetricTable(_best_spellings(page), _SPLIT_BY)
    engines = table.engines(name for pair in _LOOKUPS for name in pair)
    ids = engine_ids(engines) if engines else ()
    if engines and not any(_has_a_pair(table, labels) for labels in engines):
        raise PageRefused(f"The page is incomplete: it has one of {LOOKED_FOR} and its hits without the other.")
    reader = _Reader(page, table, alone=len(engines) == 1)
    return tuple(
        reader.sample(engine, labels, at_s=at_s, monotonic_s=monotonic_s)
        for engine, labels in zip(ids, engines, strict=True)
    )


def _has_a_pair(table: MetricTable, labels: EngineLabels) -> bool:
    return any(all(table.series(name, labels) for name in pair) for pair in _LOOKUPS)


def _best_spellings(page: Page) -> Mapping[str, tuple[Series, ...]]:
    """Series by metric; one that the page prints under several names is taken under the best of them."""
    best: dict[str, dict[frozenset[tuple[str, str]], tuple[int, Series]]] = {}
    for printed, found in page.series.items():
        spelling = spellings().get(printed)
        if spelling is None:
            continue
        chosen = best.setdefault(spelling.metric, {})
        for series in found:
            key = frozenset(series.labels.items())
            if key not in chosen or spelling.rank < chosen[key][0]:
                chosen[key] = (spelling.rank, series)
    return {metric: tuple(series for _, series in chosen.values()) for metric, chosen in best.items()}


class _Reader:
    def __init__(self, page: Page, table: MetricTable, *, alone: bool) -> None:
        self._page = page
        self._table = table
        self._alone = alone

    def sample(self, engine: str, labels: EngineLabels, *, at_s: float, monotonic_s: float) -> EngineSample:
        table = self._table
        facts = vllm_facts.cache_facts(table, labels)
        lookups, flagged = self._lookups(labels, facts.block_size)
        return EngineSample(
            engine=engine,
            at_s=at_s,
            monotonic_s=monotonic_s,
            labels=labels,
            start_time_s=self._start_time(labels),
            lookups=lookups,
            external=self._external(labels),
            served=self._served(labels),
            tier_hits=self._tier_hits(labels),
            requests=_first(
                table.counter("time_to_first_token_seconds_count", labels),
                table.counter("request_success", labels),
            ),
            ttft_seconds=table.counter("time_to_first_token_seconds_sum", labels),
            kv_usage=_first(
                table.gauge("kv_cache_usage_perc", labels), table.gauge("gpu_cache_usage_perc", labels)
            ),
            preemptions=table.counter("num_preemptions", labels),
            evictions=table.counter("engine_evicted_blocks", labels),
            resets=table.counter("engine_resets", labels),
            explained=self._explained(labels),
            running=table.gauge("num_requests_running", labels),
            waiting=table.gauge("num_requests_waiting", labels),
            adapters=vllm_facts.adapter_activity(table, labels, alone=self._alone),
            block_size=facts.block_size,
            pool_blocks=facts.pool_blocks,
            capacity_tokens=facts.capacity_tokens,
            min_reusable_prefix_tokens=facts.min_reusable_prefix_tokens,
            flags=flagged,
        )

    def _lookups(
        self, labels: EngineLabels, block_size: int | None
    ) -> tuple[LookupCounters | None, tuple[str, ...]]:
        for queries_name, hits_name in _LOOKUPS:
            queries = self._table.counter(queries_name, labels)
            hits = self._table.counter(hits_name, labels)
            if queries is None or hits is None:
                continue
            spelling = self._table.series(queries_name, labels)[0].name
            unit: SourceUnit | None = "tokens"
            if queries_name.startswith("gpu_"):
                unit = vllm_unit.unit_of_old_counters(self._page, self._table, labels, queries)
            lookups = LookupCounters(
                queries,
                hits,
                unit=unit or "blocks",
                tokens_per_unit=1 if unit == "tokens" else block_size if unit == "blocks" else None,
                spelling=spelling,
            )
            return lookups, self._flags(spelling, lookups)
        return None, (flags.UNREADABLE_LOOKUPS,)

    def _flags(self, spelling: str, lookups: LookupCounters) -> tuple[str, ...]:
        found = []
        if spelling in self._page.repeated:
            found.append(flags.DUPLICATE_SERIES)
        if lookups.tokens_per_unit is None:
            found.append(flags.UNKNOWN_BLOCK_SIZE)
        return tuple(found)

    def _external(self, labels: EngineLabels) -> LookupCounters | None:
        queries = self._table.counter("external_prefix_cache_queries", labels)
        hits = self._table.counter("external_prefix_cache_hits", labels)
        if queries is None or hits is None:
            return None
        spelling = self._table.series("external_prefix_cache_queries", labels)[0].name
        return LookupCounters(queries, hits, spelling=spelling)

    def _served(self, labels: EngineLabels) -> ServedCounters | None:
        prompt = self._table.counter("prompt_tokens", labels)
        cached = self._table.counter("prompt_tokens_cached", labels)
        if cached is None:
            by_source = self._by_source("prompt_tokens_by_source", labels)
            if by_source is not None and "local_cache_hit" in by_source:
                cached = by_source["local_cache_hit"] + by_source.get("external_kv_transfer", 0)
        if prompt is None or cached is None:
            return None
        return ServedCounters(prompt, cached)

    def _tier_hits(self, labels: EngineLabels) -> Mapping[str, float] | None:
        by_source = self._by_source("prompt_tokens_cached_by_source", labels)
        if by_source is None:
            return None
        return {_TIERS.get(source, source): value for source, value in by_source.items()}

    def _explained(self, labels: EngineLabels) -> ExplainedLookups | None:
        missed = self._summed("engine_miss_tokens", "reason", labels)
        queries = self._summed("engine_query_tokens", "adapter", labels)
        hits = self._summed("engine_hit_tokens", "adapter", labels)
        if not queries or missed is None or hits is None:
            return None
        by_adapter = {adapter: (tokens, hits[adapter]) for adapter, tokens in queries.items() if adapter in hits}
        return ExplainedLookups(sum(queries.values()), missed, by_adapter)

    def _summed(self, metric: str, label: str, labels: EngineLabels) -> dict[str, float] | None:
        """A counter of the engine patch by one of its labels; ``None`` where a value is no count."""
        found: dict[str, float] = {}
        for series in self._table.series(metric, labels):
            if not is_count(series.value):
                return None
            name = series.labels.get(label, "")
            found[name] = found.get(name, 0.0) + series.value
        return found

    def _by_source(self, metric: str, labels: EngineLabels) -> dict[str, float] | None:
        found = self._table.series(metric, labels)
        by_source = {series.labels.get("source", ""): series.value for series in found}
        if not by_source or not all(map(is_count, by_source.values())):
            return None
        return by_source

    def _start_time(self, labels: EngineLabels) -> float | None:
        """When the counters were created; else the process start, on a page that is the engine's own."""
        for metric in ("prefix_cache_queries_created", "gpu_prefix_cache_queries_created"):
            created = self._table.gauge(metric, labels)
            if created is not None:
                return created
        if labels.keys() <= _DIRECT_LABELS:
            return self._table.gauge("process_start_time_seconds", labels)
        return None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
