"""The EXP cases that come without files: recordings made here after their description."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

TARGET = "http://engine:8000/metrics"
Record = Callable[..., dict[str, Any]]


@pytest.fixture
def replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Record:
    """What the command says about the only target of pages taken 15 s apart."""

    def replay(*pages: str) -> dict[str, Any]:
        manifest = []
        for number, page in enumerate(pages):
            (tmp_path / f"t{number}.prom").write_text(page)
            scrape = {"at_s": 15 * number, "target": TARGET, "status": 200, "file": f"t{number}.prom"}
            manifest.append(scrape)
        (tmp_path / "scrapes.json").write_text(json.dumps(manifest))
        with pytest.raises(SystemExit) as left:
            main(["replay", str(tmp_path), "--json"])
        printed = capsys.readouterr()
        assert left.value.code == 0, printed.err
        found: dict[str, Any] = json.loads(printed.out)["targets"][TARGET]
        return found

    return replay


def counters(queries: int, hits: int, labels: str = 'engine="0",model_name="acme/tiny-7b"') -> str:
    return (
        f"vllm:prefix_cache_queries_total{{{labels}}} {queries}.0\n"
        f"vllm:prefix_cache_hits_total{{{labels}}} {hits}.0\n"
    )


def test_36_a_hit_rate_per_adapter_is_not_invented(replayed: Record) -> None:
    info = 'max_lora="4",running_lora_adapters="chat,legal",waiting_lora_adapters="sql"'
    adapters = f"vllm:lora_requests_info{{{info}}} 1.7e9\n"
    target = replayed(counters(1000, 500) + adapters, counters(1600, 900) + adapters)
    assert list(target["engines"]) == ["0"]
    assert target["engines"]["0"]["labels"] == {"engine": "0", "model_name": "acme/tiny-7b"}
    facts = target["facts"]
    assert facts["running_adapters"] == ["chat", "legal"]
    assert facts["adapter_hit_rates"] == "not available from this source"
    (interval,) = target["intervals"]
    assert (interval["queries"], interval["hits"]) == (600, 400)
    assert replayed(counters(1000, 500))["facts"]["adapter_hit_rates"] is None


def test_36_the_counters_of_the_engine_patch_tell_it(replayed: Record) -> None:
    labels = 'engine="0",model_name="acme/tiny-7b",adapter="{}"'
    patch = "".join(
        f"hitcurve_engine_{name}_tokens_total{{{labels.format(adapter)}}} {value}\n"
        for adapter, numbers in (("", (400, 100)), ("chat", (600, 540)), ("idle", (0, 0)))
        for name, value in zip(("query", "hit"), numbers, strict=True)
    )
    info = 'vllm:lora_requests_info{max_lora="4",running_lora_adapters="chat",waiting_lora_adapters=""} 1.7e9\n'
    facts = replayed(counters(1000, 640) + info + patch)["facts"]
    assert facts["adapter_hit_rates"] == {"": 0.25, "chat": 0.9, "idle": None}


def test_37_a_reused_multiprocess_directory(replayed: Record) -> None:
    """Counters went on over a restart; a gauge of the dead process stayed beside that of the living one."""
    before = (
        counters(9000, 8100) + 'vllm:num_requests_running{engine="0",model_name="acme/tiny-7b",pid="11"} 7.0\n'
    )
    after = (
        counters(9200, 8250)
        + 'vllm:num_requests_running{engine="0",model_name="acme/tiny-7b",pid="11"} 7.0\n'
        + 'vllm:num_requests_running{engine="0",model_name="acme/tiny-7b",pid="42"} 1.0\n'
    )
    target = replayed(before, after)
    (interval,) = target["intervals"]
    assert (interval["queries"], interval["hits"], interval["restarts"], interval["flags"]) == (200, 150, 0, [])
    assert target["restarts"] == 0
    assert [cut["kind"] for cut in target["cuts"]] == ["start"]
    assert list(target["engines"]) == ["0"]
    assert target["facts"]["requests_running"] is None


def test_15_without_start_times_a_target_that_flips_has_no_rate_either(replayed: Record) -> None:
    """SGLang, TensorRT-LLM and vLLM with several API servers print no start time."""
    seen = [(1000, 900), (50, 5), (5000, 100), (1100, 990), (60, 6), (5100, 110), (1200, 999)]
    target = replayed(*(counters(*pair) for pair in seen))
    assert [interval["flags"] for interval in target["intervals"]] == [["unstable_target"]] * 6
    assert {interval["queries"] for interval in target["intervals"]} == {None}
    assert target["restarts"] == 0


def test_08_a_restart_of_sglang_is_seen_before_its_counters_are_there_again(replayed: Record) -> None:
    """It prints a counter from its first increase on, and a hit rate of 0 without any line for hits."""

    def tokens(**modes: int) -> str:
        labels = 'model_name="acme/glm",tp_rank="0"'
        gauges = f"sglang:token_usage{{{labels}}} 0.0\nsglang:num_running_reqs{{{labels}}} 0.0\n"
        counted = (f'sglang:realtime_tokens_total{{{labels},mode="{mode}"}} {n}\n' for mode, n in modes.items())
        return gauges + "".join(counted)

    target = replayed(
        tokens(prefill_compute=1000, prefill_cache=8000, decode=50),
        tokens(),
        tokens(prefill_compute=500, decode=9),
    )
    numbers = [(one["queries"], one["hits"], one["hit_rate"], one["restarts"]) for one in target["intervals"]]
    assert numbers == [(0, 0, None, 1), (500, 0, 0.0, 0)]
    assert [interval["flags"] for interval in target["intervals"]] == [[], []]
    assert [(cut["at_s"], cut["kind"]) for cut in target["cuts"]] == [(0, "start"), (15, "restart")]


def test_08_versions_of_sglang_without_prefill_counters_restart_once(replayed: Record) -> None:
    """Before the first token nothing tells which counters the version has."""
    labels = 'model_name="acme/glm",tp_rank="0"'
    gauges = f"sglang:token_usage{{{labels}}} 0.0\nsglang:num_running_reqs{{{labels}}} 0.0\n"

    def served(prompt: int, cached: int) -> str:
        return gauges + (
            f'sglang:prompt_tokens_total{{model_name="acme/glm"}} {prompt}\n'
            f'sglang:cached_tokens_total{{cache_source="device",model_name="acme/glm"}} {cached}\n'
        )

    target = replayed(gauges, served(100, 30), gauges, served(50, 20))
    numbers = [(one["queries"], one["hits"], one["restarts"]) for one in target["intervals"]]
    assert numbers == [(100, 30, 0), (0, 0, 1), (50, 20, 0)]
    assert [(cut["at_s"], cut["kind"]) for cut in target["cuts"]] == [(0, "start"), (30, "restart")]
