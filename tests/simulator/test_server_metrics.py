"""The /metrics page, whole."""

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.time_model import TimeModel

NOT_TIMES = re.compile(r"vllm:|hitcurve_")


def plain_page(server: Any) -> dict[str, float]:
    """Engine series without histograms, creation times and settings."""
    left_out = ("_bucket", "_sum", "_count", "_created", "_info")
    return {
        series: value
        for series, value in server.series().items()
        if NOT_TIMES.match(series) and not any(part in series for part in left_out)
    }


def test_page_after_a_miss_a_hit_and_an_eviction(engine_server: Callable[..., Any]) -> None:
    settings = EngineSettings(block_size=16, num_blocks=9, max_model_len=128, patched=True)
    server = engine_server(settings)
    server.complete("a" * 100)
    server.complete("a" * 100)
    server.complete("b" * 100)
    assert plain_page(server) == {
        "vllm:num_requests_running": 0,
        "vllm:num_requests_waiting": 0,
        'vllm:num_requests_waiting_by_reason{reason="capacity"}': 0,
        'vllm:num_requests_waiting_by_reason{reason="deferred"}': 0,
        'vllm:engine_sleep_state{sleep_state="awake"}': 1,
        'vllm:engine_sleep_state{sleep_state="weights_offloaded"}': 0,
        'vllm:engine_sleep_state{sleep_state="discard_all"}': 0,
        "vllm:kv_cache_usage_perc": 0,
        "vllm:prefix_cache_queries_total": 300,
        "vllm:prefix_cache_hits_total": 96,
        "vllm:external_prefix_cache_queries_total": 0,
        "vllm:external_prefix_cache_hits_total": 0,
        "vllm:mm_cache_queries_total": 0,
        "vllm:mm_cache_hits_total": 0,
        "vllm:num_preemptions_total": 0,
        "vllm:prompt_tokens_total": 300,
        'vllm:prompt_tokens_by_source_total{source="local_compute"}': 204,
        'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': 96,
        'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': 0,
        "vllm:prompt_tokens_cached_total": 96,
        'vllm:prompt_tokens_cached_by_source_total{source="device"}': 96,
        'vllm:prompt_tokens_cached_by_source_total{source="host"}': 0,
        'vllm:prompt_tokens_cached_by_source_total{source="p2p"}': 0,
        'vllm:prompt_tokens_cached_by_source_total{source="disk"}': 0,
        'vllm:prompt_tokens_cached_by_source_total{source="external_unspecified"}': 0,
        "vllm:generation_tokens_total": 12,
        'vllm:request_success_total{finished_reason="stop"}': 0,
        'vllm:request_success_total{finished_reason="length"}': 3,
        'vllm:request_success_total{finished_reason="abort"}': 0,
        'vllm:request_success_total{finished_reason="error"}': 0,
        'vllm:request_success_total{finished_reason="repetition"}': 0,
        'vllm:admission_rejections_total{reason="max_num_queued_reqs"}': 0,
        'vllm:admission_rejections_total{reason="max_num_queued_tokens"}': 0,
        "hitcurve_engine_resets_total": 0,
        # 8 usable blocks, 6 of them cached: a prompt of 7 blocks takes the 2 free ones and 5 cached ones
        "hitcurve_engine_evicted_blocks_total": 5,
    }


def test_page_of_0_8_5_counts_blocks_under_the_old_names(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(version="0.8.5", block_size=16, max_loras=0))
    server.complete("a" * 64)
    server.complete("a" * 69)
    server.complete("a" * 69)
    assert plain_page(server) == {
        "vllm:num_requests_running": 0,
        "vllm:num_requests_waiting": 0,
        "vllm:gpu_cache_usage_perc": pytest.approx(1 / 4097),  # 0.8.5 counts the reserved block as used
        # full blocks of the prompts, less the last one of the prompt that fills its blocks: 3 + 4 + 4
        "vllm:gpu_prefix_cache_queries_total": 11,
        "vllm:gpu_prefix_cache_hits_total": 8,
        "vllm:num_preemptions_total": 0,
        "vllm:prompt_tokens_total": 202,
        "vllm:generation_tokens_total": 12,
        'vllm:request_success_total{finished_reason="stop"}': 0,
        'vllm:request_success_total{finished_reason="length"}': 3,
        'vllm:request_success_total{finished_reason="abort"}': 0,
    }
    answer = server.call("POST", "/reset_prefix_cache")
    assert (answer.status, answer.text) == (200, "")


@pytest.mark.parametrize("patched", [False, True])
def test_only_a_patched_engine_counts_resets_and_evictions(
    engine_server: Callable[..., Any], patched: bool
) -> None:
    server = engine_server(EngineSettings(patched=patched))
    for _ in range(2):
        server.call("POST", "/reset_prefix_cache")
    ours = {series: value for series, value in plain_page(server).items() if series.startswith("hitcurve")}
    both = {"hitcurve_engine_resets_total": 2, "hitcurve_engine_evicted_blocks_total": 0}
    assert ours == (both if patched else {})


def test_settings_of_the_cache_stand_on_the_page(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(block_size=32, num_blocks=129, max_model_len=4096))
    families = {
        family.name: family for family in text_string_to_metric_families(server.call("GET", "/metrics").text)
    }
    (sample,) = families["vllm:cache_config_info"].samples
    assert sample.value == 1
    known = {name: value for name, value in sample.labels.items() if value != "None"}
    assert known == {
        "block_size": "32",
        "cache_dtype": "auto",
        "effective_attention_block_size": "32",
        "enable_prefix_caching": "True",
        "engine": "0",
        "gpu_memory_utilization": "0.9",
        "kv_cache_max_concurrency": "1.0078125",
        "kv_cache_size_tokens": "4128",
        "num_gpu_blocks": "129",
        "num_gpu_blocks_override": "129",
        "prefix_caching_hash_algo": "sha256",
    }


def test_creation_times_are_after_the_process_start(engine_server: Callable[..., Any]) -> None:
    series = engine_server().series()
    created = {name: value for name, value in series.items() if "_created" in name}
    assert len(created) > 30
    assert all(value >= series["process_start_time_seconds"] for value in created.values())


def test_adapter_activity(engine_server: Callable[..., Any]) -> None:
    settings = EngineSettings(max_loras=2, max_num_seqs=2, time=TimeModel())
    server = engine_server(settings)
    for name in ("a", "b"):
        server.call("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": f"path/{name}"})
    server.complete(["x" * 20, "y" * 20, "z" * 20], model="b")
    text = server.call("GET", "/metrics").text
    labels = {line.partition("} ")[0] for line in text.splitlines() if line.startswith("vllm:lora_requests_info")}
    assert labels == {
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="b",waiting_lora_adapters="b"',
        # two ran and ended together, then the third
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters="b"',
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="b",waiting_lora_adapters=""',
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""',
    }


def test_the_page_is_text_even_where_openmetrics_is_asked_for(engine_server: Callable[..., Any]) -> None:
    """As vLLM's, whose middleware does not negotiate."""
    server = engine_server()
    asked = {"Accept": "application/openmetrics-text; version=1.0.0"}
    for headers in ({}, asked):
        page = server.call("GET", "/metrics", headers=headers)
        assert page.content_type == CONTENT_TYPE_LATEST
        assert "vllm:prefix_cache_queries" in {family.name for family in text_string_to_metric_families(page.text)}


@pytest.mark.parametrize("version", ["0.32.0", "0.8.5"])
def test_promtool_reads_the_page(engine_server: Callable[..., Any], promtool: str, version: str) -> None:
    server = engine_server(EngineSettings(version=version, patched=True))
    server.complete("a" * 100)
    page = server.call("GET", "/metrics").text
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    # promtool's advice on names is about vLLM's own names; what it cannot read it reports as an error (exit 1)
    advice = [line for line in (checked.stdout + checked.stderr).splitlines() if not line.startswith("vllm:")]
    assert (checked.returncode in (0, 3), advice) == (True, [])
