"""Polls every target on its own, at its own place in the interval."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from hitcurve.reading import CutKind, Reading
from hitcurve_exporter.configuration.access_records import EngineAccess
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.kv_events.followed import Followed
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.monitoring import Monitor, MonitorFactory
from hitcurve_exporter.scraping.schedule import next_turn, place_in_interval
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

__all__ = ["FollowKvEvents", "PageFetcher", "Poller"]

FollowKvEvents = Callable[[TargetConfig, int, Callable[[float], Awaitable[None]]], Sequence[Followed]]
"""Begins to follow a target's KV events: with the most bytes of a message, and whom to tell of a reset."""

_LOG: Final = logging.getLogger("hitcurve.exporter")
_LARGE_PAGE_BYTES: Final = 1024 * 1024
"""A page above this size is read in a thread, so that the others are not kept waiting."""


class PageFetcher(Protocol):
    """Gets one page."""

    async def fetch(self, url: str, timeout_s: float, max_body_bytes: int, access: EngineAccess | None) -> Fetched:
        """The page at ``url``, or the reason why there is none; raises only when cancelled."""
        ...


class _Watch:
    """A target with its monitor and the task that polls it."""

    def __init__(self, target: WatchedTarget, monitor: Monitor) -> None:
        self.target = target
        self.monitor = monitor
        self.busy = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None
        self.last_reset_s: float | None = None
        """When somebody last told of a reset."""

    async def note(self, kind: CutKind, at_s: float) -> None:
        """A cut known from outside."""
        if kind == "reset":
            self.last_reset_s = at_s
        async with self.busy:
            self.monitor.mark(kind, at_s)


class Poller:
    """Keeps one task per target. ``apply`` starts it and changes its targets; ``close`` ends every task."""

    def __init__(
        self,
        fetcher: PageFetcher,
        monitor_factory: MonitorFactory,
        follow_kv_events: FollowKvEvents = lambda target, most_bytes, on_reset: (),
    ) -> None:
        self._fetcher = fetcher
        self._follow_kv_events = follow_kv_events
        self._monitor_factory = monitor_factory
        self.internal_errors = InternalErrors()
        self._watches: dict[TargetConfig, _Watch] = {}
        self._config: ExporterConfig | None = None

    @property
    def targets(self) -> Sequence[WatchedTarget]:
        """The targets in the order of the configuration."""
        return [watch.target for watch in self._watches.values()]

    @property
    def readings(self) -> Iterable[Reading]:
        """The newest reading of every engine."""
        return (reading for target in self.targets for reading in target.readings)

    @property
    def ready(self) -> bool:
        """Whether every target was polled once."""
        return all(target.last is not None for target in self.targets)

    async def apply(self, config: ExporterConfig) -> None:
        """Poll the targets of ``config`` from now on; one that went is forgotten at once.

        One that stays keeps its history, unless a setting changed that readings are derived with, and its turn,
        unless the interval or a limit of the scrapes changed.
        """
        before, old = self._config, self._watches
        keep = {} if before is None or _derives_anew(before, config) else old
        self._config = config
        self._watches = {target: keep.get(target) or self._watch(target, config) for target in config.targets}
        staying = {} if before is None or _scrapes_anew(before, config) else self._watches
        await self._stop(watch for target, watch in old.items() if staying.get(target) is not watch)
        await _follow_no_longer(watch for target, watch in old.items() if self._watches.get(target) is not watch)
        start_s = asyncio.get_running_loop().time()
        starting = [watch for watch in self._watches.values() if watch.task is None]
        for index, watch in enumerate(starting):
            first_s = start_s + place_in_interval(index, len(starting), config.interval_s)
            watch.task = asyncio.create_task(self._poll(watch, config, first_s), name=watch.target.config.name)

    async def mark(self, kind: CutKind, at_s: float, target: str | None, engine: str | None) -> int:
        """Note a cut known from outside; returns how many targets it was noted for."""
        marked = 0
        for watch in list(self._watches.values()):
            if target is not None and not _is_called(watch.target.config, target):
                continue
            if engine is not None and engine not in {reading.engine for reading in watch.target.readings}:
                continue
            await watch.note(kind, at_s)
            marked += 1
        return marked

    async def close(self) -> None:
        """Stop polling."""
        await self._stop(self._watches.values())
        await _follow_no_longer(self._watches.values())
        self._watches = {}

    def _watch(self, target: TargetConfig, config: ExporterConfig) -> _Watch:
        watched = WatchedTarget(target, config.max_engines_per_target, self.internal_errors)
        watch = _Watch(watched, self._monitor_factory(target, config))

        async def note_reset(at_s: float) -> None:
            """Unless who ordered it has told of it, or another engine of the target."""
            if watch.last_reset_s is None or at_s - watch.last_reset_s > config.interval_s:
                await watch.note("reset", at_s)

        watched.followed = self._follow_kv_events(target, config.max_body_bytes, note_reset)
        return watch

    async def _poll(self, watch: _Watch, config: ExporterConfig, first_s: float) -> None:
        loop = asyncio.get_running_loop()
        turn_s = first_s
        while True:
            await asyncio.sleep(turn_s - loop.time())
            # In a call of its own, so that the page is not kept until the next turn.
            await self._take_turn(watch, config)
            turn_s, missed = next_turn(first_s, config.interval_s, turn_s, loop.time())
            watch.target.skipped += missed

    async def _take_turn(self, watch: _Watch, config: ExporterConfig) -> None:
        watch.target.take(*await self._scrape(watch, config), watch.monitor.episodes)

    async def _scrape(self, watch: _Watch, config: ExporterConfig) -> tuple[Fetched, tuple[Reading, ...]]:
        target = watch.target.config
        fetched = await self._fetcher.fetch(
            target.metrics_url, config.timeout_s, config.max_body_bytes, target.access
        )
        try:
            async with watch.busy:
                readings = await _observe(watch.monitor, fetched)
        except Exception as error:
            self.internal_errors.count += 1
            _LOG.exception("%s: cannot read its page", watch.target.config.name)
            return replace(fetched, body=None, failure="internal_error", detail=repr(error)), ()
        if fetched.failure is None and not any(reading.up for reading in readings):
            detail = next((reading.failure for reading in readings if reading.failure), "")
            fetched = replace(fetched, body=None, failure="not_metrics", detail=detail)
        return fetched, readings

    @staticmethod
    async def _stop(watches: Iterable[_Watch]) -> None:
        """Cancel the tasks and wait for them, so that no late page is taken."""
        tasks = []
        for watch in watches:
            if watch.task is not None:
                watch.task.cancel()
                tasks.append(watch.task)
                watch.task = None
        await asyncio.gather(*tasks, return_exceptions=True)


async def _observe(monitor: Monitor, fetched: Fetched) -> tuple[Reading, ...]:
    """The readings; when cancelled, waits for the thread, since a monitor is used by one task at a time."""
    if fetched.body is None or len(fetched.body) <= _LARGE_PAGE_BYTES:
        return monitor.observe(fetched)
    observing = asyncio.ensure_future(asyncio.to_thread(monitor.observe, fetched))
    try:
        return await asyncio.shield(observing)
    except asyncio.CancelledError:
        await asyncio.wait([observing])
        raise


async def _follow_no_longer(watches: Iterable[_Watch]) -> None:
    for watch in watches:
        await asyncio.gather(*(one.close() for one in watch.target.followed))


def _is_called(target: TargetConfig, name: str) -> bool:
    """Whether ``name`` is the target's name or address, with or without /metrics."""
    address = target.metrics_url.removesuffix("/metrics")
    return name == target.name or name.rstrip("/").removesuffix("/metrics") == address


def _derives_anew(old: ExporterConfig, new: ExporterConfig) -> bool:
    """Whether ``new`` derives readings with other settings than ``old``."""
    fields = ("windows_s", "request_window", "max_engines_per_target", "curve")
    return any(getattr(old, field) != getattr(new, field) for field in fields)


def _scrapes_anew(old: ExporterConfig, new: ExporterConfig) -> bool:
    """Whether ``new`` scrapes at other times or within other bounds than ``old``."""
    return any(
        getattr(old, field) != getattr(new, field) for field in ("interval_s", "timeout_s", "max_body_bytes")
    )
