"""Target groups behind an address, asked for again and again."""

import logging
from typing import Final, Protocol

from hitcurve_exporter.configuration.discovery_records import HttpDiscovery
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.discovery.groups import BadGroups, parse_groups
from hitcurve_exporter.scraping.fetched import Fetched

__all__ = ["Get", "TargetAddress"]

_LOG: Final = logging.getLogger("hitcurve.exporter")
_LARGEST_BYTES: Final = 16 * 1024 * 1024
_TIMEOUT_S: Final = 10.0


class Get(Protocol):
    """One bounded GET."""

    async def __call__(self, url: str, timeout_s: float, max_body_bytes: int, *, accept: str) -> Fetched:
        """The answer, or the reason why there is none."""
        ...


class TargetAddress:
    """One entry. An address that fails keeps its last good targets."""

    def __init__(self, discovery: HttpDiscovery, get: Get) -> None:
        self.refresh_s = discovery.refresh_s
        self.targets: tuple[TargetConfig, ...] = ()
        self.failures = 0
        self._url = discovery.url
        self._get = get
        self._failing = False

    async def refresh(self) -> bool:
        """Ask once; whether the targets are others now."""
        fetched = await self._get(self._url, _TIMEOUT_S, _LARGEST_BYTES, accept="application/json")
        before = self.targets
        try:
            if fetched.body is None:
                raise BadGroups(fetched.detail)
            self.targets = parse_groups(fetched.body, as_yaml=False)
        except BadGroups as error:
            self.failures += 1
            if not self._failing:
                _LOG.error("the last good targets of %s stay, since %s", self._url, error)
            self._failing = True
            return False
        self._failing = False
        return self.targets != before
