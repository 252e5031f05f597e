"""The time to the first token, by what was found: counted beside vLLM's own metrics, and never in their way."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hitcurve_engine.metrics.first_token import FirstTokens, found_share
from hitcurve_engine.switch import Switch

NAME = "hitcurve_engine_first_token_seconds"


@dataclass
class Finished:
    """What vLLM 0.32 says of a finished request, as far as it is read."""

    num_cached_tokens: int | None = 0
    num_prompt_tokens: int = 100
    num_generation_tokens: int = 5
    queued_time: float = 0.25
    prefill_time: float = 0.5


@dataclass
class Stats:
    finished_requests: list[Any] = field(default_factory=list)


class StatLogger:
    """The shape of vLLM's class."""

    def __init__(self) -> None:
        self.vllm_config = SimpleNamespace(model_config=SimpleNamespace(served_model_name="tiny"))
        self.recorded: list[Any] = []

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> str:
        """Counts."""
        self.recorded.append((iteration_stats, engine_idx))
        return "recorded"


@dataclass
class Watched:
    """A hooked class of its own, with the registry and the switch of the hook."""

    owner: type[StatLogger]
    registry: CollectorRegistry
    switch: Switch
    first_tokens: FirstTokens

    def count(self, part: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"{NAME}_{part}", {"model_name": "tiny", **labels})


@pytest.fixture
def watched() -> Iterator[Watched]:
    owner = type("PrometheusStatLogger", (StatLogger,), {"record": StatLogger.record})
    registry, switch = CollectorRegistry(), Switch()
    first_tokens = FirstTokens(switch, registry)
    first_tokens.hook(owner)
    yield Watched(owner, registry, switch, first_tokens)
    first_tokens.remove()


@pytest.mark.parametrize(
    ("cached", "prompt", "found"),
    [
        (-1, 100, "none"),
        (0, 100, "none"),
        (1, 100, "some"),
        (49, 100, "some"),
        (50, 100, "most"),
        (99, 100, "most"),
    ],
)
def test_a_prompt_was_found_to_none_some_or_most_of_it(cached: int, prompt: int, found: str) -> None:
    assert found_share(cached, prompt) == found


def test_finished_requests_are_counted_by_what_was_found(watched: Watched) -> None:
    logger = watched.owner()
    stats = Stats([Finished(), Finished(16), Finished(96, prefill_time=0.01, queued_time=0.0), Finished(96)])
    assert logger.record(None, stats, engine_idx=2) == "recorded"
    logger.record(None, Stats([Finished()]), None, 1)
    assert logger.recorded == [(stats, 2), (Stats([Finished()]), 1)]
    assert watched.count("count", engine="2", found="none") == 1
    assert watched.count("count", engine="2", found="some") == 1
    assert watched.count("sum", engine="2", found="most") == pytest.approx(0.76)
    assert watched.count("bucket", engine="2", found="most", le="0.01") == 1
    assert watched.count("count", engine="1", found="none") == 1


def test_what_has_no_first_token_or_no_cached_tokens_is_not_counted(watched: Watched) -> None:
    aborted = Finished(num_generation_tokens=0, prefill_time=-12345.0)
    for stats in (None, Stats(), Stats([aborted, Finished(num_cached_tokens=None), Finished(prefill_time=-1.0)])):
        watched.owner().record(None, stats)
    assert list(watched.registry.collect()) == []
    assert watched.switch.errors == {}


def test_an_error_of_ours_reaches_nobody_and_ends_the_counting_only(watched: Watched) -> None:
    assert watched.owner().record(None, Stats([SimpleNamespace(num_cached_tokens=1)])) == "recorded"
    assert watched.owner().record(None, Stats([Finished()])) == "recorded"
    assert watched.switch.errors == {"time to the first token": 1}
    assert watched.switch.active
    assert list(watched.registry.collect()) == []


def test_an_error_of_vllm_passes_through(watched: Watched) -> None:
    with pytest.raises(TypeError):
        watched.owner().record()


def test_a_patch_that_is_off_or_removed_only_calls_on(watched: Watched) -> None:
    watched.switch.turn_off("for the test")
    assert watched.owner().record(None, Stats([Finished()])) == "recorded"
    watched.first_tokens.remove()
    assert watched.owner.record is StatLogger.record
    assert list(watched.registry.collect()) == []
