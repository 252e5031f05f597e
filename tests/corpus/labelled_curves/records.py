"""The records of the corpus: a curve as scrapes, and the truth about it as stretches and incidents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hitcurve.reading import Cause, CutKind, StateName
from hitcurve.sample import EngineSample

__all__ = ["Incident", "Label", "LabelledCurve", "Scrape", "Stretch"]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape: the sample is ``None`` where it failed; ``marks`` are cuts told from outside."""

    at_s: float
    sample: EngineSample | None
    marks: tuple[CutKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """From ``from_s`` on the state truly is ``state``. Until ``grace_to_s`` nobody can be sure of that yet: the
    state before and those in ``also`` are right too. ``lasting_also`` are right throughout."""

    from_s: float
    state: StateName
    grace_to_s: float
    also: frozenset[StateName] = frozenset()
    lasting_also: frozenset[StateName] = frozenset()


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened to the cache at ``at_s`` and has to be named by one of ``names``.

    ``in_scrapes`` is the delay (in good scrapes, the one that holds the event included) in which the traffic holds
    twice the evidence that the best possible test needs; ``owed`` is false where nothing obliges anybody to name
    it, since it is too small or too brief to be told from noise. ``causes`` are right answers.
    """

    kind: str
    at_s: float
    names: frozenset[StateName]
    causes: frozenset[Cause]
    in_scrapes: int
    owed: bool = True
    shares: tuple[float, float] | None = None
    """What one request in each of the first two good scrapes brings of the evidence for its name; zero where these
    cannot show that name, ``None`` where the page itself tells of the incident."""
    periods_s: float | None = None
    """Length of one swing, for swings."""


@dataclass(frozen=True, slots=True)
class Label:
    """What is right at one scrape. ``sure`` is false in a grace."""

    state: StateName
    right: frozenset[StateName]
    sure: bool


@dataclass(frozen=True, slots=True)
class LabelledCurve:
    """One curve of the corpus. ``steady_from_s`` is where healthy traffic may no longer alarm, for healthy
    ones."""

    kind: str
    source: str
    seed: int
    qps: float
    scrape_s: float
    scrapes: Sequence[Scrape]
    truth: Sequence[Stretch]
    incidents: Sequence[Incident] = ()
    note: str = ""

    @property
    def seconds(self) -> float:
        return self.scrapes[-1].at_s - self.scrapes[0].at_s

    def labels(self) -> Iterator[Label | None]:
        """One per scrape; ``None`` at a failed one, which shows nothing."""
        index = 0
        for scrape in self.scrapes:
            while index + 1 < len(self.truth) and self.truth[index + 1].from_s < scrape.at_s:
                index += 1
            if scrape.sample is None:
                yield None
                continue
            now = self.truth[index]
            right = {now.state} | now.lasting_also
            sure = scrape.at_s > now.grace_to_s
            if not sure:
                right |= now.also
                if index:
                    before = self.truth[index - 1]
                    right |= {before.state} | before.lasting_also
                    if scrape.at_s <= before.grace_to_s:
                        right |= before.also
            yield Label(now.state, frozenset(right), sure and len(right) == 1)
