"""Planted defects: what each does to answers and counters, beside a healthy engine asked the same."""

from collections.abc import Callable
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve_simulator.server.faults import FAULTS, find_fault
from hitcurve_simulator.server.settings import EngineSettings

Start = Callable[..., Any]


def settings(fault: str = "", **others: Any) -> EngineSettings:
    known = {"block_size": 16, "num_blocks": 65, "max_model_len": 512, "patched": True}
    return EngineSettings(**(known | others), fault=fault)


def cached(answer: Any) -> int:
    details = answer.json["usage"]["prompt_tokens_details"]
    return details["cached_tokens"] if details else 0


def text(answer: Any) -> str:
    return str(answer.json["choices"][0]["text"])


def chat_with(server: Any, image: str) -> Any:
    parts = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": "What is it? " * 8}]
    return server.chat([{"role": "user", "content": parts}], max_tokens=8)


def test_names_are_those_of_the_list_and_others_are_refused_with_the_nearest() -> None:
    assert find_fault("").name == ""
    assert [find_fault(name).name for name in FAULTS] == list(FAULTS)
    assert all(fault.defect.endswith(".") for fault in FAULTS.values())
    with pytest.raises(UsageError, match=r"no fault 'salt-not-hashd' \(did you mean 'salt-not-hashed'\?\)"):
        find_fault("salt-not-hashd")


def test_an_image_is_part_of_the_prompt_and_of_its_keys(engine_server: Start) -> None:
    server = engine_server(settings())
    first, second, again = (chat_with(server, image) for image in ("data:a", "data:b", "data:a"))
    assert first.json["usage"]["prompt_tokens"] == len("[user] ") + 48 + 1 + len("What is it? " * 8) + 1 + len(
        "[assistant] "
    )
    assert [cached(one) for one in (first, second, again)] == [0, 0, 160]
    wrong = engine_server(settings("image-not-hashed"))
    assert [cached(chat_with(wrong, image)) for image in ("data:a", "data:b")] == [0, 160]


@pytest.mark.parametrize(
    ("fault", "tokens"),
    [("", 96), ("last-token-not-computed", 112), ("cache-secretly-off", 0)],
)
def test_hits_of_a_prompt_of_seven_whole_blocks(engine_server: Start, fault: str, tokens: int) -> None:
    server = engine_server(settings(fault))
    server.complete("a" * 112, max_tokens=4)
    assert cached(server.complete("a" * 112, max_tokens=4)) == tokens


@pytest.mark.parametrize("fault", ["", "parent-not-hashed"])
def test_a_block_of_another_chain(engine_server: Start, fault: str) -> None:
    """The middle block was computed behind another head; only the head may be found."""
    server = engine_server(settings(fault))
    head, other, middle = "h" * 16, "o" * 16, "m" * 16
    server.complete(other + middle + "x", max_tokens=8)
    server.complete(head + "n" * 16 + "x", max_tokens=8)
    spliced = server.complete(head + middle + "end", max_tokens=8)
    cold = text(engine_server(settings()).complete(head + middle + "end", max_tokens=8))
    assert cached(spliced) == (32 if fault else 16)
    assert (text(spliced) == cold) == (not fault)


@pytest.mark.parametrize(("fault", "tokens"), [("", 0), ("reset-clears-nothing", 96)])
def test_what_is_cached_after_a_reset_that_said_it_worked(engine_server: Start, fault: str, tokens: int) -> None:
    server = engine_server(settings(fault))
    server.complete("a" * 100)
    assert server.call("POST", "/reset_prefix_cache").json == {"success": True}
    assert cached(server.complete("a" * 100)) == tokens


@pytest.mark.parametrize(
    ("fault", "queries", "hits"),
    [("", 200, 96), ("hits-counted-twice", 200, 192), ("counters-stuck", 0, 0)],
)
def test_counters_after_a_miss_and_a_hit(engine_server: Start, fault: str, queries: int, hits: int) -> None:
    server = engine_server(settings(fault))
    server.complete("a" * 100)
    server.complete("a" * 100)
    page = server.series()
    assert page["vllm:prefix_cache_queries_total"] == queries
    assert page["vllm:prefix_cache_hits_total"] == hits


@pytest.mark.parametrize(("fault", "queries"), [("", 200), ("reset-clears-counters", 100)])
def test_counters_after_a_reset(engine_server: Start, fault: str, queries: int) -> None:
    server = engine_server(settings(fault))
    server.complete("a" * 100)
    server.call("POST", "/reset_prefix_cache")
    server.complete("b" * 100)
    assert server.series()["vllm:prefix_cache_queries_total"] == queries


def test_a_hash_root_is_the_same_on_two_engines_unless_it_is_random(engine_server: Start) -> None:
    def root(fault: str = "") -> str:
        (name,) = (name for name in engine_server(settings(fault)).series() if "hash_root_info" in name)
        return str(name)

    assert root() == root()
    assert len({root(), root("random-hash-root"), root("random-hash-root")}) == 3


def test_two_engines_show_each_others_page(engine_server: Start) -> None:
    first = engine_server(settings())
    second = engine_server(settings("counters-swapped", fault_peer=first.url))
    first.complete("a" * 100)
    assert second.series()["vllm:prefix_cache_queries_total"] == 100
    second.complete("a" * 50)
    assert second.series()["vllm:prefix_cache_queries_total"] == 100
    own = second.call("GET", "/metrics?own=1").text
    assert 'vllm:prefix_cache_queries_total{engine="0",model_name="simulated"} 50.0' in own
