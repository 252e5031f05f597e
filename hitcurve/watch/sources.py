"""Where ``watch`` reads from: engines directly, or exporters that follow them already."""

import json
import time
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from hitcurve.address import base_address
from hitcurve.errors import EnvironmentFailed
from hitcurve.monitor import TargetMonitor
from hitcurve.reading import Interval, Reading, reading_from_json
from hitcurve.scrape import Scrape, fetch
from hitcurve.watch.first_tokens import FirstTokens
from hitcurve.watch.replica import Curves, Round

__all__ = ["Fetch", "Rounds", "Watched"]

Fetch = Callable[[str, float, int], Scrape]

_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_THREADS: Final = 32
_EXPORTER_PAGE: Final = b"hitcurve_build_info"
_POINT: Final = ("from_s", "to_s", "queries", "hits", "hit_rate")
_API: Final = "/api/v1/engines"


class Rounds(Protocol):
    """What a view needs: the next round."""

    def next(self) -> Round:
        """Read all replicas once."""
        ...


class Watched:
    """Engines and exporters by their addresses. ``next`` reads all of them at once, each within ``timeout_s``.

    An address is an exporter's where its ``/metrics`` says so: its engines, windows and curves are shown as it
    knows them. Every other one is an engine's, followed here with ``windows_s`` and the default curve settings.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        windows_s: Sequence[float],
        timeout_s: float,
        fetch: Fetch = fetch,
        wall: Callable[[], float] = time.time,
    ) -> None:
        addresses = list(dict.fromkeys(base_address(url) for url in urls))
        self._sources = [_Source(address, tuple(windows_s), timeout_s, fetch) for address in addresses]
        self._curves = Curves()
        self._wall = wall

    def next(self) -> Round:
        """Read every address; one that does not answer gives a replica that is down."""
        at_s = self._wall()
        with ThreadPoolExecutor(min(len(self._sources), _MOST_THREADS)) as pool:
            answers = list(pool.map(_Source.read, self._sources))
        readings = []
        for source, found in zip(self._sources, answers, strict=True):
            for reading in found:
                if source.follows_curves and not self._curves.knows(reading):
                    self._curves.seed(reading, source.curve(reading))
                readings.append(reading)
        first_tokens = {source.address: source.first_tokens.mean_s for source in self._sources}
        return Round(at_s, self._curves.replicas(readings, first_tokens))


class _Source:
    """One address."""

    def __init__(self, address: str, windows_s: tuple[float, ...], timeout_s: float, fetch: Fetch) -> None:
        self.address = address
        self.follows_curves = False
        self.first_tokens = FirstTokens()
        self._fetch = fetch
        self._timeout_s = timeout_s
        self._monitor = TargetMonitor(address, windows_s=windows_s)

    def read(self) -> tuple[Reading, ...]:
        """The newest readings behind the address."""
        if self.follows_curves:
            return self._ask()
        scrape = self._get("/metrics")
        if isinstance(scrape.body, bytes) and _EXPORTER_PAGE in scrape.body:
            self.follows_curves = True
            return self._ask()
        self.first_tokens.observe(scrape.body if scrape.status == 200 and scrape.error is None else None)
        return self._monitor.observe(scrape)

    def curve(self, reading: Reading) -> list[Interval]:
        """What the exporter has followed of a replica so far; empty where it does not say."""
        identity = urllib.parse.quote(f"{reading.target}/{reading.engine}", safe="")
        try:
            points = _document(self._get(f"{_API}/{identity}/curve"))["points"]
            return [Interval(*(one[name] for name in _POINT)) for one in points]
        except (EnvironmentFailed, KeyError, TypeError):
            return []

    def _ask(self) -> tuple[Reading, ...]:
        scrape = self._get(_API)
        try:
            return tuple(reading_from_json(one) for one in _document(scrape)["engines"])
        except EnvironmentFailed as failed:
            return (Reading(self.address, "", scrape.at_s, up=False, failure=str(failed)),)
        except (KeyError, TypeError):
            reason = "the exporter is of another version than this command"
            return (Reading(self.address, "", scrape.at_s, up=False, failure=reason),)

    def _get(self, path: str) -> Scrape:
        return self._fetch(self.address + path, self._timeout_s, _MOST_BYTES)


def _document(scrape: Scrape) -> Any:
    if scrape.error is not None:
        raise EnvironmentFailed(scrape.error)
    if scrape.status != 200 or scrape.body is None:
        raise EnvironmentFailed(f"HTTP {scrape.status}")
    try:
        return json.loads(scrape.body)
    except (ValueError, RecursionError) as error:
        raise EnvironmentFailed("the answer is not JSON") from error
