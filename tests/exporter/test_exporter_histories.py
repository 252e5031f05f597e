"""Whatever comes in whatever order: counters never fall, histories belong to the configured targets."""

import asyncio
import itertools
import sys
from collections.abc import Sequence
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.flags import ALL_FLAGS
from hitcurve.reading import CutKind, Reading
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.page.document import TEXT, page
from hitcurve_exporter.scraping.fetched import FAILURE_REASONS, Fetched
from hitcurve_exporter.scraping.poller import Poller
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

TARGETS = [TargetConfig(f"http://{name}:1", f"http://{name}:1/metrics", name) for name in "abcd"]


def counters(target: WatchedTarget) -> dict[str, float]:
    lines = page([target.lines], TEXT).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs if "_total{" in name}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, *FAILURE_REASONS]),
            st.lists(st.sampled_from(sorted(ALL_FLAGS)), max_size=3),
            st.integers(0, 3),
        ),
        max_size=15,
    )
)
def test_counters_about_scrapes_are_exact_and_never_fall(
    scrapes: Sequence[tuple[str | None, list[str], int]],
) -> None:
    target = WatchedTarget(TARGETS[0], 256, InternalErrors())
    before: dict[str, float] = {}
    for failure, flags, engines in scrapes:
        body = b"x" if failure is None else None
        fetched = Fetched(1.0, 1.0, 0.1, 200, body=body, failure=failure)  # type: ignore[arg-type]
        target.take(
            fetched,
            [Reading("a", str(rank), 1.0, up=failure is None, flags=tuple(flags)) for rank in range(engines)],
        )
        now = counters(target)
        assert all(now[name] >= value for name, value in before.items() if "engine=" not in name)
        before = now
    for reason in FAILURE_REASONS if scrapes else ():
        expected = sum(failure == reason for failure, _, _ in scrapes)
        assert before[f'hitcurve_scrape_errors_total{{target="a",reason="{reason}"}}'] == expected
    for flag in ALL_FLAGS if scrapes else ():
        expected = sum(flag in flags and engines > 0 for _, flags, engines in scrapes)
        assert before[f'hitcurve_flags_total{{target="a",flag="{flag}"}}'] == expected


class CountingMonitor:
    """Says how many pages it was shown, in a number that tells monitors apart."""

    numbers = itertools.count()

    def __init__(self, target: TargetConfig, config: ExporterConfig) -> None:
        self._name = target.name
        self.number = next(self.numbers)

    episodes: ClassVar[dict[str, tuple[object, ...]]] = {}

    def observe(self, fetched: Fetched) -> tuple[Reading, ...]:
        return (Reading(self._name, "0", fetched.at_s, up=True, query_tokens_total=self.number),)

    def mark(self, kind: CutKind, at_s: float) -> None:
        """Nothing to cut."""


class InstantFetcher:
    """Answers at once."""

    async def fetch(self, url: str, timeout_s: float, max_body_bytes: int, access: object) -> Fetched:
        return Fetched(1.0, 1.0, 0.0, 200, "text/plain", url.encode())


CONFIGS = st.builds(
    lambda targets, request_window: ExporterConfig(
        tuple(TARGETS[index] for index in targets), interval_s=0.001, request_window=request_window
    ),
    st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True),
    st.sampled_from([1000, 1000, 1000, 200]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(CONFIGS, min_size=1, max_size=5))
def test_a_target_keeps_its_history_exactly_as_long_as_it_stays(configs: list[ExporterConfig]) -> None:
    async def run() -> None:
        poller = Poller(InstantFetcher(), CountingMonitor)
        numbers: dict[str, float] = {}
        last: ExporterConfig | None = None
        for config in configs:
            await poller.apply(config)
            while not poller.ready:
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            seen = {reading.target: reading.query_tokens_total for reading in poller.readings}
            assert [target.config for target in poller.targets] == list(config.targets)
            assert list(seen) == [target.name for target in config.targets]
            same_settings = last is not None and last.request_window == config.request_window
            for name, number in seen.items():
                stayed = same_settings and name in numbers
                assert (number == numbers.get(name)) == stayed
            numbers, last = seen, config
        await poller.close()
        assert poller.targets == []

    asyncio.run(run())


def test_a_page_is_not_kept_until_the_next_scrape() -> None:
    """A thousand pages of 100 kB are 100 MB."""
    body = b"x" * 1000

    class OnePage:
        async def fetch(self, url: str, timeout_s: float, max_body_bytes: int, access: object) -> Fetched:
            return Fetched(1.0, 1.0, 0.0, 200, "text/plain", body)

    async def references_between_scrapes() -> int:
        poller = Poller(OnePage(), CountingMonitor)
        await poller.apply(ExporterConfig((TARGETS[0],), interval_s=3600.0))
        while not poller.ready:
            await asyncio.sleep(0)
        found = sys.getrefcount(body)
        await poller.close()
        return found

    before = sys.getrefcount(body)
    assert asyncio.run(references_between_scrapes()) == before
