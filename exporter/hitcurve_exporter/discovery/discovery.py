"""All sources of targets together: watches them and tells when the targets change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from hitcurve_exporter.configuration.discovery_records import FileDiscovery, HttpDiscovery
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.discovery.address import Get, TargetAddress
from hitcurve_exporter.discovery.files import TargetFiles

__all__ = ["Discovery"]

_LOG: Final = logging.getLogger("hitcurve.exporter")
_LOOK_AT_FILES_S: Final = 1.0


class Discovery:
    """``configure`` it to begin or to change, ``close`` it to end; ``changed`` is called after each change."""

    def __init__(self, get: Get, changed: Callable[[], Awaitable[None]]) -> None:
        self._get = get
        self._changed = changed
        self._files: dict[FileDiscovery, TargetFiles] = {}
        self._addresses: dict[HttpDiscovery, TargetAddress] = {}
        self._asked: set[HttpDiscovery] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._failures_of_the_gone = 0

    @property
    def _sources(self) -> list[TargetFiles | TargetAddress]:
        return [*self._files.values(), *self._addresses.values()]

    @property
    def targets(self) -> tuple[TargetConfig, ...]:
        """What all sources name now: files first, in the order of the configuration."""
        return tuple(target for source in self._sources for target in source.targets)

    @property
    def failures(self) -> int:
        """Times that a file or an address could not be used; never falls."""
        return self._failures_of_the_gone + sum(source.failures for source in self._sources)

    @property
    def ready(self) -> bool:
        """Whether every address was asked once; files are read before anything else."""
        return self._asked >= self._addresses.keys()

    async def configure(self, config: ExporterConfig) -> None:
        """Watch the sources of ``config``; those that stay keep what they know. Reads the files first."""
        await self.close()
        failures = self.failures
        self._files = {one: self._files.get(one) or TargetFiles(one) for one in config.file_sd}
        self._addresses = {
            one: self._addresses.get(one) or TargetAddress(one, self._get) for one in config.http_sd
        }
        self._failures_of_the_gone += failures - self.failures
        await self._refresh_files()
        if self._files:
            self._tasks.append(asyncio.create_task(self._watch_files(), name="target files"))
        for discovery, address in self._addresses.items():
            self._tasks.append(asyncio.create_task(self._watch_address(discovery, address), name=discovery.url))

    async def close(self) -> None:
        """Stop watching; what is known stays known."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh_files(self) -> bool:
        changes = [await asyncio.to_thread(files.refresh) for files in self._files.values()]
        return any(changes)

    async def _watch_files(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AT_FILES_S)
            if await self._refresh_files():
                await self._tell()

    async def _watch_address(self, discovery: HttpDiscovery, address: TargetAddress) -> None:
        while True:
            changed = await address.refresh()
            self._asked.add(discovery)
            if changed:
                await self._tell()
            await asyncio.sleep(address.refresh_s)

    async def _tell(self) -> None:
        try:
            await self._changed()
        except Exception:
            _LOG.exception("cannot take the targets that were found")
