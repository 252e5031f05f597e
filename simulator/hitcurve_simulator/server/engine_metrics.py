"""What the engine does, counted as vLLM counts it.

Lookup counters come from the rules' own statistics (unit and moment of the version). Prompt and generation
counters rise when tokens are handed out, prompts once per request: a resumed one counts no prompt tokens again.
"""

from prometheus_client import CollectorRegistry

from hitcurve_simulator.server.clock import Clock
from hitcurve_simulator.server.metric_families import PATCHED, V0_8_5, V0_32_0
from hitcurve_simulator.server.metrics_page import MetricsPage
from hitcurve_simulator.server.sequence import Sequence
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.vllm import Scheduler, StepOutcome

__all__ = ["EngineMetrics"]

_UNUSED_SETTINGS = (
    *("_block_size_resolved", "cache_hit_alignment_tokens", "enable_mamba_shared_prefix_checkpoint"),
    *("hash_block_size", "is_attention_free", "kv_cache_dtype_skip_layers", "kv_cache_layout"),
    *("kv_cache_memory_bytes", "kv_offloading_backend", "kv_offloading_size", "kv_sharing_fast_prefill"),
    *("mamba_block_size", "mamba_cache_dtype", "mamba_cache_mode", "mamba_page_size_padded"),
    *("mamba_ssm_cache_dtype", "prefix_cache_retention_interval", "prefix_match_unit", "replayssm_buffer_len"),
    *("skip_page_size_padded", "swa_bounded_replay", "use_kda_recoverssm", "use_replayssm"),
    "user_specified_block_size",
)
"""Labels of vLLM 0.32's cache settings that mean nothing here."""


class EngineMetrics:
    """Recorder of the engine loop that fills a /metrics page."""

    def __init__(self, settings: EngineSettings, clock: Clock, registry: CollectorRegistry | None = None) -> None:
        families = V0_8_5 if settings.old_metrics else V0_32_0
        self.page = MetricsPage(
            families + (PATCHED if settings.patched else ()),
            model=settings.model,
            max_model_len=settings.max_model_len,
            registry=registry,
        )
        self._settings = settings
        self._clock = clock
        self._queries = self._hits = self._evictions = 0
        self.page.set("vllm:engine_sleep_state", 1, "awake")
        if settings.max_loras:
            self.page.add_adapters()
        self.page.add_info("vllm:cache_config_info", "Settings of the cache, as labels.", cache_config(settings))

    def render(self, scheduler: Scheduler) -> tuple[bytes, str]:
        """The page now; gauges are read from the scheduler."""
        page, usage = self.page, scheduler.manager.usage
        deferred = len(self._deferred(scheduler))
        page.set("vllm:num_requests_running", len(scheduler.running))
        page.set("vllm:num_requests_waiting", len(scheduler.waiting))
        page.set("vllm:num_requests_waiting_by_reason", len(scheduler.waiting) - deferred, "capacity")
        page.set("vllm:num_requests_waiting_by_reason", deferred, "deferred")
        page.set("vllm:kv_cache_usage_perc", usage)
        page.set("vllm:gpu_cache_usage_perc", usage)
        return page.render()

    def stepped(self, outcome: StepOutcome, scheduler: Scheduler) -> None:
        page, statistics = self.page, scheduler.manager.statistics
        queries, hits = statistics.queries - self._queries, statistics.hits - self._hits
        self._queries, self._hits = statistics.queries, statistics.hits
        if queries:
            page.add("vllm:prefix_cache_queries", queries)
            page.add("vllm:gpu_prefix_cache_queries", queries)
        if hits:
            page.add("vllm:prefix_cache_hits", hits)
            page.add("vllm:gpu_prefix_cache_hits", hits)
            page.add("vllm:prompt_tokens_cached_by_source", hits, "device")
        evictions = scheduler.manager.pool.evictions
        page.add("hitcurve_engine_evicted_blocks", evictions - self._evictions)
        self._evictions = evictions
        page.observe("vllm:iteration_tokens_total", sum(work.tokens for work in outcome.work))
        if outcome.preempted:
            self.preempted(len(outcome.preempted))
        if self._settings.max_loras:
            self._note_adapters(scheduler)

    def generated(self, sequence: Sequence, tokens: int, now_s: float) -> None:
        page = self.page
        page.add("vllm:generation_tokens", tokens)
        if sequence.last_token_s is not None:
            between = now_s - sequence.last_token_s
            page.observe("vllm:inter_token_latency_seconds", between)
            page.observe("vllm:time_per_output_token_seconds", between)
            return
        prompt, cached = sequence.prompt_tokens, sequence.hit_tokens
        page.observe("vllm:time_to_first_token_seconds", now_s - sequence.arrived_s)
        page.add("vllm:prompt_tokens", prompt)
        page.add("vllm:prompt_tokens_cached", cached)
        page.add("vllm:prompt_tokens_by_source", prompt - cached, "local_compute")
        page.add("vllm:prompt_tokens_by_source", cached, "local_cache_hit")

    def finished(self, sequence: Sequence, now_s: float) -> None:
        page = self.page
        page.add("vllm:request_success", 1, sequence.finished)
        page.observe("vllm:request_prompt_tokens", sequence.prompt_tokens)
        page.observe("vllm:request_generation_tokens", sequence.delivered)
        page.observe("vllm:request_prefill_kv_computed_tokens", sequence.prompt_tokens - sequence.hit_tokens)
        page.observe("vllm:request_num_preemptions", sequence.preemptions)
        page.observe("vllm:request_params_max_tokens", sequence.max_tokens)
        self._observe_phases(sequence, now_s)
        if all(sample.finished for sample in sequence.family):
            page.observe("vllm:request_params_n", len(sequence.family))
            page.observe(
                "vllm:request_max_num_generation_tokens", max(sample.delivered for sample in sequence.family)
            )

    def preempted(self, requests: int) -> None:
        self.page.add("vllm:num_preemptions", requests)

    def reset(self) -> None:
        self.page.add("hitcurve_engine_resets", 1)

    def _observe_phases(self, sequence: Sequence, now_s: float) -> None:
        page = self.page
        page.observe("vllm:e2e_request_latency_seconds", now_s - sequence.arrived_s)
        scheduled, first, last = sequence.scheduled_s, sequence.first_token_s, sequence.last_token_s
        if scheduled is None:
            page.observe("vllm:request_queue_time_seconds", now_s - sequence.arrived_s)
            return
        page.observe("vllm:request_queue_time_seconds", scheduled - sequence.arrived_s)
        if first is None or last is None:
            return
        page.observe("vllm:request_prefill_time_seconds", first - scheduled)
        page.observe("vllm:request_decode_time_seconds", last - first)
        page.observe("vllm:request_inference_time_seconds", last - scheduled)
        mean = (last - first) / max(1, sequence.delivered - 1)
        page.observe("vllm:request_time_per_output_token_seconds", mean)

    def _note_adapters(self, scheduler: Scheduler) -> None:
        running = [state.request.adapter for state in scheduler.running]
        waiting = [state.request.adapter for state in scheduler.waiting]
        names = [list(dict.fromkeys(name for name in some if name is not None)) for some in (running, waiting)]
        self.page.set_adapters(self._settings.max_loras, names[0], names[1], self._clock.wall())

    def _deferred(self, scheduler: Scheduler) -> list[str]:
        """Ids of waiting requests whose adapter finds no free slot."""
        active = {state.request.adapter for state in scheduler.running} - {None}
        if not self._settings.max_loras or len(active) < self._settings.max_loras:
            return []
        return [
            state.request_id
            for state in scheduler.waiting
            if state.request.adapter is not None and state.request.adapter not in active
        ]


def cache_config(settings: EngineSettings) -> dict[str, str]:
    """Labels of ``vllm:cache_config_info``; blocks count the reserved one, as vLLM's do."""
    blocks = settings.num_blocks
    labels = {
        "block_size": str(settings.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(settings.enable_prefix_caching),
        "gpu_memory_utilization": "0.9",
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(blocks),
        "num_gpu_blocks_override": str(blocks),
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": "None",
    }
    if settings.old_metrics:
        return {**labels, "prefix_caching_hash_algo": "builtin", "swap_space_bytes": "4294967296"}
    return {
        **dict.fromkeys(_UNUSED_SETTINGS, "None"),
        **labels,
        "engine": "0",
        "effective_attention_block_size": str(settings.block_size),
        "kv_cache_max_concurrency": str(blocks * settings.block_size / settings.max_model_len),
        "kv_cache_size_tokens": str(blocks * settings.block_size),
    }
