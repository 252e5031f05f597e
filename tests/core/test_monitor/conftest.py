"""What the monitor tests share: pages, a target, and a classifier that only writes down what it is given."""

from collections.abc import Callable
from typing import Any

import pytest

from hitcurve.curve import Episode
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import CurveState, Cut, Interval, Reading
from hitcurve.sample import EngineSample
from hitcurve.scrape import Scrape

TARGET = "http://engine:8000/metrics"
NAMES = {
    "queries": "vllm:prefix_cache_queries_total",
    "hits": "vllm:prefix_cache_hits_total",
    "created": "vllm:prefix_cache_queries_created",
    "requests": "vllm:time_to_first_token_seconds_count",
    "waiting": "vllm:num_requests_waiting",
    "prompt": "vllm:prompt_tokens_total",
    "cached": "vllm:prompt_tokens_cached_total",
    "preemptions": "vllm:num_preemptions_total",
    "external_queries": "vllm:external_prefix_cache_queries_total",
    "external_hits": "vllm:external_prefix_cache_hits_total",
    "resets": "hitcurve_engine_resets_total",
    "evictions": "hitcurve_engine_evicted_blocks_total",
}


class NoteTaker:
    """A classifier that keeps what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[Interval | None, EngineSample | None, float, tuple[Cut, ...]]] = []

    @property
    def episodes(self) -> tuple[Episode, ...]:
        return ()

    def observe(
        self, interval: Interval | None, sample: EngineSample | None, at_s: float, cuts: tuple[Cut, ...]
    ) -> CurveState:
        self.seen.append((interval, sample, at_s, cuts))
        return CurveState("steady", None, at_s, {"scrapes": len(self.seen)})


def make_page(*, labels: str = 'engine="0",model_name="m"', **counters: float) -> str:
    return "".join(f"{NAMES[key]}{{{labels}}} {value!r}\n" for key, value in counters.items())


def make_monitor(**options: Any) -> TargetMonitor:
    return TargetMonitor(TARGET, **{"windows_s": (30,), "classifier_factory": NoteTaker, **options})


@pytest.fixture(scope="session")
def page() -> Callable[..., str]:
    """Make a page of one engine from counters by short name."""
    return make_page


@pytest.fixture(scope="session")
def monitor() -> Callable[..., TargetMonitor]:
    """Make a monitor with a 30 s window and a note taker for a classifier."""
    return make_monitor


@pytest.fixture(scope="session")
def note_taker() -> type[NoteTaker]:
    return NoteTaker


@pytest.fixture(scope="session")
def readings() -> Callable[..., list[Reading]]:
    """Read pages of one engine, 15 s apart; one reading each."""

    def read(*pages: str, step_s: float = 15, **options: Any) -> list[Reading]:
        watching = make_monitor(**options)
        found = []
        for number, text in enumerate(pages):
            at_s = number * step_s
            (reading,) = watching.observe(Scrape(at_s, at_s, TARGET, 200, text, "text/plain; version=0.0.4"))
            found.append(reading)
        return found

    return read
