"""What an engine's page says right now, read from a real server."""

from dataclasses import asdict
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.engine_counters import EngineCounters, read_counters
from hitcurve_chaos.targets import Target

PAGE = """\
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 40
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 60
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 16
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="m"} 2
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.5e+06
"""
OF_ADAPTERS = """\
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 60
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1.76e+09
"""


class Page:
    """An engine that answers everything with one text."""

    def __init__(self, text: str, status: int = 200) -> None:
        self._said = status, text

    def answer(self, method: str, path: str, body: Any) -> tuple[int, str]:
        return self._said


def counters_of(scripted: ModuleType, page: Page) -> EngineCounters | None:
    with scripted.serve(page) as url:
        return read_counters(Target("t", url, "m"))


def test_counters_are_added_and_what_the_page_does_not_say_is_unknown(scripted: ModuleType) -> None:
    found = counters_of(scripted, Page(PAGE))
    assert found is not None
    assert {name: value for name, value in asdict(found).items() if value is not None} == {
        "queries": 140,
        "hits": 76,
        "preemptions": 2,
        "kv_usage": 0.5,
        "resident_bytes": 1_500_000,
    }


def test_an_engine_with_adapters_tells_its_slots(scripted: ModuleType) -> None:
    found = counters_of(scripted, Page(OF_ADAPTERS))
    assert found is not None
    assert (found.adapter_slots, found.queries) == (4, 100)


@pytest.mark.parametrize("page", [Page(PAGE, 500), Page("<html>")])
def test_a_page_that_is_none_tells_nothing(scripted: ModuleType, page: Page) -> None:
    assert counters_of(scripted, page) is None
