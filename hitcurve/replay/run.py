"""Replaying a recording through the same monitors that watch live targets."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from hitcurve.curve import Episode
from hitcurve.monitor import TargetMonitor, total_interval
from hitcurve.reading import Interval
from hitcurve.replay.history import TargetHistory
from hitcurve.sample import EngineSample
from hitcurve.scrape import Scrape

__all__ = ["Replay", "ReplayedTarget", "replay"]


@dataclass(frozen=True, slots=True)
class ReplayedTarget:
    """One target of a recording: what happened, the last good samples and the incidents by engine."""

    history: TargetHistory
    samples: Mapping[str, EngineSample]
    episodes: Mapping[str, tuple[Episode, ...]]


@dataclass(frozen=True, slots=True)
class Replay:
    """A whole recording. ``fleet`` sums the intervals of each round of scrapes over all targets."""

    targets: Mapping[str, ReplayedTarget]
    fleet: tuple[Interval, ...]


def replay(scrapes: Callable[[], Iterable[Scrape]], windows_s: Collection[float]) -> Replay:
    """Replay what ``scrapes()`` yields in order of time; it is called again where that is needed.

    Whether an address leads to several processes in turn shows only when the first of them answers again. Since
    a recording is complete, it is then replayed with that known from the start.
    """
    known: dict[str, frozenset[float]] = {}
    while True:
        result, alternating = _once(scrapes(), tuple(windows_s), known)
        if alternating == known:
            return result
        known = alternating


def _once(
    scrapes: Iterable[Scrape], windows_s: tuple[float, ...], known: Mapping[str, frozenset[float]]
) -> tuple[Replay, dict[str, frozenset[float]]]:
    monitors: dict[str, TargetMonitor] = {}
    histories: dict[str, TargetHistory] = {}
    fleet = _Fleet()
    for scrape in scrapes:
        target = scrape.target
        if target not in monitors:
            monitors[target] = TargetMonitor(target, windows_s=windows_s, alternating_starts=known.get(target, ()))
            histories[target] = TargetHistory(target)
        interval = histories[target].add(monitors[target].observe(scrape), windows_s)
        fleet.add(target, interval)
    targets = {
        target: ReplayedTarget(histories[target], monitor.samples, monitor.episodes)
        for target, monitor in monitors.items()
    }
    alternating = {
        target: monitor.alternating_starts for target, monitor in monitors.items() if monitor.alternating_starts
    }
    return Replay(targets, fleet.intervals()), alternating


class _Fleet:
    """Intervals of all targets, summed round by round; a round ends when a target comes up again."""

    def __init__(self) -> None:
        self._rounds: list[Interval] = []
        self._round: dict[str, Interval | None] = {}

    def add(self, target: str, interval: Interval | None) -> None:
        if target in self._round:
            self._close()
        self._round[target] = interval

    def intervals(self) -> tuple[Interval, ...]:
        self._close()
        return tuple(self._rounds)

    def _close(self) -> None:
        total = total_interval(interval for interval in self._round.values() if interval is not None)
        if total is not None:
            self._rounds.append(total)
        self._round = {}
