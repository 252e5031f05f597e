"""Watching a labelled curve, through the monitor that the exporter and the replay use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hitcurve.curve import CurveClassifier, CurveConfig, Episode
from hitcurve.monitor.engine import EngineMonitor
from hitcurve.reading import CurveState, Cut
from labelled_curves.records import Label, LabelledCurve

__all__ = ["Watched", "watch"]


@dataclass(frozen=True, slots=True)
class Watched:
    """What was said at each good scrape, beside what is right."""

    curve: LabelledCurve
    at_s: Sequence[float]
    states: Sequence[CurveState]
    labels: Sequence[Label]
    episodes: Sequence[Episode]

    def pairs(self) -> Iterator[tuple[Label, CurveState]]:
        return zip(self.labels, self.states, strict=True)


def watch(curve: LabelledCurve, config: CurveConfig | None = None) -> Watched:
    """Let a fresh monitor with a classifier watch the curve."""
    monitor = EngineMonitor(
        "corpus", "0", windows_s=(), max_requests=1000, classifier=CurveClassifier(config or CurveConfig())
    )
    at_s, states, labels = [], [], []
    for scrape, label in zip(curve.scrapes, curve.labels(), strict=True):
        if scrape.sample is None or label is None:
            monitor.fail(scrape.at_s, "HTTP 500")
            continue
        reading = monitor.observe(scrape.sample, tuple(Cut(scrape.at_s, kind) for kind in scrape.marks))
        assert reading.state is not None
        at_s.append(scrape.at_s)
        states.append(reading.state)
        labels.append(label)
    return Watched(curve, at_s, states, labels, monitor.episodes)
