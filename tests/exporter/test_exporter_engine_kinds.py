"""Engines of three kinds on one page, as Prometheus' own checker reads it."""

import subprocess
from collections.abc import Callable
from typing import Any

from hitcurve_exporter.configuration.records import ExporterConfig

SGLANG = """\
# TYPE sglang:realtime_tokens_total counter
sglang:realtime_tokens_total{{dp_rank="0",mode="prefill_cache",model_name="g"}} {cached}.0
sglang:realtime_tokens_total{{dp_rank="0",mode="prefill_compute",model_name="g"}} {computed}.0
"""
TRTLLM = """\
# TYPE trtllm_kv_cache_reused_blocks_total counter
trtllm_kv_cache_reused_blocks_total{{engine_type="trtllm",model_name="t"}} {reused}.0
# TYPE trtllm_kv_cache_missed_blocks_total counter
trtllm_kv_cache_missed_blocks_total{{engine_type="trtllm",model_name="t"}} {missed}.0
# TYPE trtllm_kv_cache_tokens_per_block gauge
trtllm_kv_cache_tokens_per_block{{engine_type="trtllm",model_name="t"}} 32.0
"""


def test_three_kinds_of_engines_on_one_page_and_promtool_has_nothing_to_say(
    scripted_engine: Callable[..., Any],
    start_exporter: Callable[..., Any],
    eventually: Callable[..., Any],
    page_of: Callable[..., str],
    watching: Callable[..., ExporterConfig],
    promtool: str,
) -> None:
    vllm = scripted_engine(page_of(1000, 500, 10))
    sglang = scripted_engine(SGLANG.format(cached=100, computed=100))
    trtllm = scripted_engine(TRTLLM.format(reused=10, missed=10))
    exporter = start_exporter(watching(vllm.url, sglang.url, trtllm.url))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    vllm.page = page_of(1100, 575, 12)
    sglang.page = SGLANG.format(cached=190, computed=110)
    trtllm.page = TRTLLM.format(reused=14, missed=16)
    for engine in (vllm, sglang, trtllm):
        engine.scraped_again()
    seen = exporter.samples()
    rates = {
        name.split('model_name="')[1].split('"')[0]: value
        for name, value in seen.items()
        if name.startswith("hitcurve_hit_rate_ratio") and 'window="30s"' in name
    }
    assert rates == {"tiny": 0.75, "g": 0.9, "t": 0.4}
    tokens = [value for name, value in seen.items() if name.startswith("hitcurve_query_tokens_total")]
    assert tokens == [100, 100, 10 * 32]
    assert seen['hitcurve_fleet_hit_rate_ratio{window="30s"}'] == (75 + 90 + 4 * 32) / (100 + 100 + 320)
    text = exporter.ask("/metrics").text
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
