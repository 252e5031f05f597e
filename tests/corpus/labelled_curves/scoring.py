"""What the classifier gets right on a corpus: windows by state, delays, causes, false alarms."""

import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hitcurve.reading import STATES, UNHEALTHY_STATES, StateName
from hitcurve.sample import EngineSample
from labelled_curves.evidence import two_scrapes_prove
from labelled_curves.records import Incident
from labelled_curves.traffic import PROMPT
from labelled_curves.watch import Watched

__all__ = ["Alarms", "Delay", "Score", "false_alarms"]

_DAY_S = 86_400.0


@dataclass(slots=True)
class Delay:
    """How the incidents of one kind were named. Delays in good scrapes, the one that holds the event included."""

    owed: int = 0
    never: int = 0
    in_time: int = 0
    provable_at_once: int = 0
    """Incidents of which two scrapes hold the evidence."""
    within_two: int = 0
    """Of these, named within two scrapes."""
    two_of_all: int = 0
    right_causes: int = 0
    delays: list[int] = field(default_factory=list)
    periods: list[float] = field(default_factory=list)

    def row(self) -> dict[str, float | int | None]:
        """The figures by name."""
        known = sorted(self.delays)
        return {
            "incidents": self.owed,
            "named": len(known),
            "within_2_scrapes": self.two_of_all,
            "provable_in_2_scrapes": self.provable_at_once,
            "of_these_within_2_scrapes": self.within_two,
            "within_evidence": self.in_time,
            "median": statistics.median(known) if known else None,
            "p90": known[int(0.9 * (len(known) - 1))] if known else None,
            "most": known[-1] if known else None,
            "median_periods": round(statistics.median(self.periods), 2) if self.periods else None,
            "right_cause": round(self.right_causes / len(known), 4) if known else None,
        }


@dataclass(slots=True)
class Score:
    """Sums over curves."""

    curves: int = 0
    windows: int = 0
    right: int = 0
    sure: Counter[tuple[StateName, StateName]] = field(default_factory=Counter)
    delays: dict[str, Delay] = field(default_factory=lambda: defaultdict(Delay))
    missed_episodes: int = 0
    by_kind: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def add(self, watched: Watched) -> None:
        """Take in one curve."""
        self.curves += 1
        for label, state in watched.pairs():
            good = state.state in label.right
            self.windows += 1
            self.right += good
            self.by_kind[watched.curve.kind, good] += 1
            if label.sure:
                self.sure[label.state, state.state] += 1
        for incident in watched.curve.incidents:
            if incident.owed:
                self._take_incident(watched, incident)

    def _take_incident(self, watched: Watched, incident: Incident) -> None:
        delay = self.delays[incident.kind]
        delay.owed += 1
        provable = incident.in_scrapes <= 2 and _two_scrapes_prove(watched, incident)
        delay.provable_at_once += provable
        after = [state for at_s, state in zip(watched.at_s, watched.states, strict=True) if at_s >= incident.at_s]
        first = next((number for number, state in enumerate(after, 1) if state.state in incident.names), None)
        if first is None:
            delay.never += 1
            return
        delay.delays.append(first)
        delay.in_time += first <= incident.in_scrapes
        delay.two_of_all += first <= 2
        delay.within_two += first <= 2 and provable
        if incident.periods_s:
            delay.periods.append(first * watched.curve.scrape_s / incident.periods_s)
        cause = after[first - 1].cause
        for state in after[first:]:
            if state.state not in incident.names:
                break
            cause = state.cause or cause
        delay.right_causes += cause in incident.causes
        if incident.kind != "low" and not _covers(watched, incident):
            self.missed_episodes += 1

    @property
    def share_right(self) -> float:
        """Windows with a right state, those in a grace included."""
        return self.right / self.windows

    @property
    def sure_right(self) -> float:
        """Windows with the one right state, of those in which only one is."""
        return sum(count for (truth, said), count in self.sure.items() if truth == said) / self.sure.total()

    def recalls(self) -> Mapping[StateName, float]:
        """Share of the sure windows of each state that are named so."""
        found = {}
        for state in STATES:
            total = sum(count for (truth, _), count in self.sure.items() if truth == state)
            if total:
                found[state] = self.sure[state, state] / total
        return found

    @property
    def macro(self) -> float:
        """Mean of the recalls over states."""
        recalls = self.recalls()
        return sum(recalls.values()) / len(recalls)

    @property
    def causes_right(self) -> float:
        """Share of the named incidents whose cause is right."""
        named = sum(len(delay.delays) for delay in self.delays.values())
        return sum(delay.right_causes for delay in self.delays.values()) / named


def _two_scrapes_prove(watched: Watched, incident: Incident) -> bool:
    """Whether what really came in the first two good scrapes holds the evidence, or the page tells it."""
    if incident.shares is None:
        return True
    good = [scrape for scrape in watched.curve.scrapes if scrape.sample is not None]
    first = next(number for number, scrape in enumerate(good) if scrape.at_s >= incident.at_s)
    samples = [scrape.sample for scrape in good[first - 1 : first + 2] if scrape.sample is not None]
    came = [_requests(*pair) for pair in itertools.pairwise(samples)]
    counted = samples[0].requests is not None
    return len(came) == 2 and two_scrapes_prove(incident.shares, came, counted=counted)


def _requests(before: EngineSample, sample: EngineSample) -> float:
    """Requests between two samples of one process; where they are not counted, tokens over their usual size."""
    if before.requests is not None and sample.requests is not None:
        return sample.requests - before.requests
    assert before.lookups is not None
    assert sample.lookups is not None
    return (sample.lookups.queries - before.lookups.queries) / PROMPT


def _covers(watched: Watched, incident: Incident) -> bool:
    """Whether an episode lies over the incident: it begins no later than eight good scrapes after its evidence
    ends."""
    after = [at_s for at_s in watched.at_s if at_s >= incident.at_s]
    late_s = after[min(incident.in_scrapes + 8, len(after)) - 1]
    return any(
        episode.from_s <= late_s and (episode.to_s is None or episode.to_s >= incident.at_s)
        for episode in watched.episodes
    )


@dataclass(frozen=True, slots=True)
class Alarms:
    """False alarms over engine-days: times that a healthy engine began to read unhealthy."""

    days: float
    alarms: int
    states: Mapping[str, int]

    @property
    def per_day(self) -> float:
        return self.alarms / self.days


def false_alarms(days: Iterable[Watched]) -> dict[str, Alarms]:
    """By kind of traffic."""
    seconds: Counter[str] = Counter()
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for watched in days:
        kind = watched.curve.kind
        seconds[kind] += int(watched.curve.seconds)
        healthy = True
        for state in watched.states:
            if healthy and state.state in UNHEALTHY_STATES:
                found[kind][state.state] += 1
            healthy = state.state not in UNHEALTHY_STATES
    return {
        kind: Alarms(seconds[kind] / _DAY_S, found[kind].total(), dict(found[kind])) for kind in sorted(seconds)
    }
