"""One engine over time: samples in, readings out."""

from collections.abc import Collection, Sequence

from hitcurve.counters import hit_rate
from hitcurve.curve import Episode
from hitcurve.flags import UNREADABLE_LOOKUPS, UNSTABLE_TARGET
from hitcurve.monitor.classifier import Classifier
from hitcurve.monitor.intervals import EngineCounters, Progress
from hitcurve.monitor.rates import HitRates
from hitcurve.monitor.told_resets import ToldResets
from hitcurve.reading import Cut, Reading
from hitcurve.sample import EngineSample

__all__ = ["EngineMonitor"]


class EngineMonitor:
    """Keeps counters, windows and curve of one engine.

    ``resets_empty_request_window`` makes a reset that is known (counted by the engine plugin, or marked) empty
    the request window, as it does inside vLLM.
    """

    def __init__(
        self,
        target: str,
        engine: str,
        *,
        windows_s: Sequence[float],
        max_requests: int,
        classifier: Classifier,
        resets_empty_request_window: bool = False,
        alternating_starts: Collection[float] = (),
    ) -> None:
        self.engine = engine
        self.sample: EngineSample | None = None
        """The last good one."""
        self._target = target
        self._counters = EngineCounters(alternating_starts=alternating_starts)
        self._told_resets = ToldResets()
        self._rates = HitRates(windows_s, max_requests)
        self._classifier = classifier
        self._resets_empty_request_window = resets_empty_request_window
        self._queries = self._hits = 0.0
        self._requests: float | None = None
        self._preemptions: float | None = None
        self._evictions: float | None = None
        self._restarts = self._resets = 0

    @property
    def alternating_starts(self) -> frozenset[float]:
        """Start times of processes that answered in turn under this engine's name."""
        return self._counters.alternating_starts

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Incidents on the curve so far."""
        return self._classifier.episodes

    def observe(self, sample: EngineSample, marked: tuple[Cut, ...] = ()) -> Reading:
        """Take a sample; ``marked`` are cuts known from outside since the one before."""
        first = self.sample is None
        progress = self._counters.add(sample)
        cuts = self._cuts(progress, sample, marked, first=first)
        self.sample = sample
        self._count(progress, sample)
        if self._resets_empty_request_window and any(cut.kind == "reset" for cut in cuts):
            self._rates.empty_request_window()
        self._rates.add(progress, sample)
        state = self._classifier.observe(progress.interval, sample, sample.at_s, cuts)
        lookups, adapters = sample.lookups, sample.adapters
        tokens_known = lookups is not None and lookups.tokens_per_unit is not None
        return Reading(
            target=self._target,
            engine=self.engine,
            at_s=sample.at_s,
            up=True,
            labels=dict(sample.labels),
            interval=progress.interval,
            windows=self._rates.windows() if tokens_known else (),
            request_window=self._rates.request_window(sample.monotonic_s) if tokens_known else None,
            cumulative_hit_rate=None if lookups is None else hit_rate(lookups.queries, lookups.hits),
            query_tokens_total=self._queries,
            hit_tokens_total=self._hits,
            requests_total=self._requests,
            restarts_total=self._restarts,
            resets_total=self._resets,
            kv_usage=sample.kv_usage,
            preemptions_total=self._preemptions,
            evicted_blocks_total=self._evictions,
            mean_ttft_s=_mean(progress.ttft_seconds, progress.requests),
            running=sample.running,
            waiting=sample.waiting,
            running_adapters=() if adapters is None else adapters.running,
            block_size=sample.block_size,
            pool_blocks=sample.pool_blocks,
            capacity_tokens=sample.capacity_tokens,
            min_reusable_prefix_tokens=sample.min_reusable_prefix_tokens,
            state=state if _is_known(progress, sample) else None,
            cuts=cuts,
            flags=sample.flags if progress.interval is None else progress.interval.flags,
        )

    def fail(self, at_s: float, reason: str) -> Reading:
        """The scrape at ``at_s`` brought nothing: totals stay, rates have no value."""
        return Reading(
            target=self._target,
            engine=self.engine,
            at_s=at_s,
            up=False,
            failure=reason,
            labels={} if self.sample is None else dict(self.sample.labels),
            query_tokens_total=self._queries,
            hit_tokens_total=self._hits,
            requests_total=self._requests,
            restarts_total=self._restarts,
            resets_total=self._resets,
            preemptions_total=self._preemptions,
            evicted_blocks_total=self._evictions,
            state=self._classifier.observe(None, None, at_s, ()),
        )

    def _count(self, progress: Progress, sample: EngineSample) -> None:
        if progress.interval is not None:
            self._queries += progress.interval.queries or 0.0
            self._hits += progress.interval.hits or 0.0
        self._requests = _total(self._requests, sample.requests, progress.requests)
        self._preemptions = _total(self._preemptions, sample.preemptions, progress.preemptions)
        self._evictions = _total(self._evictions, sample.evictions, progress.evictions)
        self._restarts += progress.restarts

    def _cuts(
        self, progress: Progress, sample: EngineSample, marked: tuple[Cut, ...], *, first: bool
    ) -> tuple[Cut, ...]:
        """Marked cuts, and those the page shows unless they were marked; new resets are counted."""
        marks = [cut for cut in marked if cut.kind == "reset"]
        resets, number = self._told_resets.take(marks, int(progress.resets or 0), sample.at_s)
        self._resets += number
        found = [cut for cut in marked if cut.kind != "reset"]
        if first:
            found.append(Cut(sample.at_s, "start"))
        if progress.restarts and not any(cut.kind == "restart" for cut in marked):
            found.append(Cut(sample.at_s, "restart"))
        return tuple(sorted((*found, *resets), key=lambda cut: cut.at_s))


def _is_known(progress: Progress, sample: EngineSample) -> bool:
    """Whether the scrape lets one know the state. A page that has nothing new to tell leaves it as it was."""
    several = progress.interval is not None and UNSTABLE_TARGET in progress.interval.flags
    return UNREADABLE_LOOKUPS not in sample.flags and not several


def _mean(total: float | None, count: float | None) -> float | None:
    return total / count if total is not None and count else None


def _total(known: float | None, counter: float | None, added: float | None) -> float | None:
    """``None`` until the engine counts at all."""
    if counter is None:
        return known
    return (known or 0.0) + (added or 0.0)
