"""Watches engines through the query API of a Prometheus that scrapes them."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from hitcurve.reading import CutKind, Reading
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.configuration.source_records import PrometheusSource
from hitcurve_exporter.discovery.selection import select
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.monitoring import MonitorFactory
from hitcurve_exporter.scraping.queried_target import QueriedTarget
from hitcurve_exporter.scraping.query_api import (
    Origin,
    QueryFailed,
    counters_query,
    pages_of,
    present_of,
    up_query,
)
from hitcurve_exporter.scraping.schedule import next_turn
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget

__all__ = ["Post", "QueryPoller"]

_LOG: Final = logging.getLogger("hitcurve.exporter")
_FIRST_RANGE_S: Final = 300.0
"""How far back the first query looks: a history to begin with, and no target is missed that is scraped rarely."""
_LATE_S: Final = 30.0
"""Samples that arrive this late are still seen."""
_GONE_S: Final = 300.0
"""Where the server tells nothing of ``up``, a target without samples for so long is gone, as for PromQL."""


class Post(Protocol):
    """One bounded POST of a form."""

    async def __call__(
        self,
        url: str,
        timeout_s: float,
        max_body_bytes: int,
        *,
        form: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> Fetched:
        """The answer, or the reason why there is none."""
        ...


class QueryPoller:
    """An EngineSource. Each turn asks for what was scraped since the last one and replays it, scrape by scrape."""

    def __init__(self, source: PrometheusSource, post: Post, monitor_factory: MonitorFactory) -> None:
        self.internal_errors = InternalErrors()
        self.ready = False
        self._source = source
        self._post = post
        self._monitor_factory = monitor_factory
        self._known: dict[Origin, QueriedTarget] = {}
        self._config: ExporterConfig | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked_s: float | None = None
        self._failure = ""

    @property
    def targets(self) -> Sequence[WatchedTarget]:
        """The targets that have engines, by name."""
        return [self._known[origin].watched for origin in sorted(self._known)]

    @property
    def readings(self) -> Iterable[Reading]:
        """The newest reading of every engine."""
        return (reading for target in self.targets for reading in target.readings)

    async def apply(self, config: ExporterConfig) -> None:
        """Begin to ask; with another configuration all histories begin anew."""
        if self._task is not None and config == self._config:
            return
        await self.close()
        self._config = config
        self._asked_s = None
        self._task = asyncio.create_task(self._poll(config), name=self._source.url)

    async def mark(self, kind: CutKind, at_s: float, target: str | None, engine: str | None) -> int:
        """Note a cut known from outside; returns how many targets it was noted for."""
        marked = [known for known in self._known.values() if known.is_called(target, engine)]
        for known in marked:
            known.mark(kind, at_s)
        return len(marked)

    async def close(self) -> None:
        """Stop asking and forget everything."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._known.clear()

    async def _poll(self, config: ExporterConfig) -> None:
        loop = asyncio.get_running_loop()
        first_s = turn_s = loop.time()
        while True:
            await asyncio.sleep(turn_s - loop.time())
            try:
                await self._take_turn(config)
            except Exception:
                self.internal_errors.count += 1
                _LOG.exception("cannot read what %s answered", self._source.url)
            self.ready = True
            turn_s, _ = next_turn(first_s, config.interval_s, turn_s, loop.time())

    async def _take_turn(self, config: ExporterConfig) -> None:
        now_s = asyncio.get_running_loop().time()
        since_s = _FIRST_RANGE_S if self._asked_s is None else now_s - self._asked_s + config.interval_s + _LATE_S
        try:
            answer = await self._ask(config, counters_query(self._source.matchers, min(since_s, _FIRST_RANGE_S)))
            pages = await asyncio.to_thread(pages_of, answer.body or b"")
            present = present_of((await self._ask(config, up_query(self._source.matchers))).body or b"")
        except QueryFailed as error:
            self._tell(str(error))
            for known in self._known.values():
                known.fail("connection_failed", f"the query failed: {error}")
            return
        self._tell("")
        self._asked_s = now_s
        self._welcome(config, pages)
        for origin, known in list(self._known.items()):
            try:
                known.take(pages.get(origin, {}), answer.duration_s)
            except Exception:
                self.internal_errors.count += 1
                _LOG.exception("%s: cannot read its samples", origin.name)
            self._judge(origin, known, present)
            # A thousand targets take half a second; others want to be answered meanwhile.
            await asyncio.sleep(0)

    def _welcome(self, config: ExporterConfig, pages: Mapping[Origin, Mapping[float, str]]) -> None:
        """Take in targets that were not known."""
        origins = {_target(origin): origin for origin in sorted({*self._known, *pages})}
        chosen = select(origins, config.shard, config.max_targets).targets
        for target in chosen:
            origin = origins[target]
            if origin not in self._known:
                watched = WatchedTarget(target, config.max_engines_per_target, self.internal_errors)
                self._known[origin] = QueriedTarget(watched, self._monitor_factory(target, config))

    def _judge(self, origin: Origin, known: QueriedTarget, present: Mapping[Origin, bool]) -> None:
        """Forget a target that left; say so of one that could not be scraped."""
        if not present:
            if known.silent_turns * (self._config.interval_s if self._config else 0) > _GONE_S:
                del self._known[origin]
        elif origin not in present:
            del self._known[origin]
        elif not present[origin]:
            known.fail("connection_failed", "Prometheus could not scrape it (up is 0)")

    async def _ask(self, config: ExporterConfig, query: str) -> Fetched:
        url = f"{self._source.url}/api/v1/query"
        headers = {"Accept": "application/json", **dict(self._source.headers), **self._authorization()}
        answer = await self._post(
            url, config.timeout_s, config.max_body_bytes, form={"query": query}, headers=headers
        )
        if answer.body is None:
            raise QueryFailed(answer.detail)
        return answer

    def _authorization(self) -> dict[str, str]:
        if self._source.authorization_file is None:
            return {}
        try:
            lines = Path(self._source.authorization_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise QueryFailed(
                f"the authorization file {self._source.authorization_file} cannot be read"
            ) from error
        return {"Authorization": lines[0].strip() if lines else ""}

    def _tell(self, failure: str) -> None:
        if failure and not self._failure:
            _LOG.warning("%s: %s", self._source.url, failure)
        elif self._failure and not failure:
            _LOG.info("%s answers again", self._source.url)
        self._failure = failure


def _target(origin: Origin) -> TargetConfig:
    return TargetConfig(url=origin.instance, metrics_url=origin.name, name=origin.name)
