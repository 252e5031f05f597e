"""What a scenario is: a record, not a class to inherit from."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hitcurve_chaos.calls import Transport
from hitcurve_chaos.capabilities import Need
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.correctness import Correctness
from hitcurve_chaos.drivers.driver import Driver, DriverFailed
from hitcurve_chaos.engine_counters import EngineCounters, read_counters
from hitcurve_chaos.faults.fault import Fault
from hitcurve_chaos.hypothesis import Expectation
from hitcurve_chaos.loads import Loads
from hitcurve_chaos.opened import Drivers
from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, Settings
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Number
from hitcurve_chaos.watch import Watch

__all__ = ["Bench", "Scenario", "Spans", "Story"]

_UNKNOWN_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Spans:
    """The times of a scenario run, Unix seconds."""

    baseline_from_s: float
    fault_from_s: float
    watched_to_s: float
    """Until when the fault was watched: its end where it lasts, ``hold`` seconds on where it is a single blow."""


_FAULT_MARGIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Bench:
    """All that a scenario works with. ``settings`` are resolved."""

    target: Target
    settings: Settings
    watch: Watch
    loads: Loads
    probe: Probe
    transport: Transport
    clock: Clock
    randomness: random.Random
    seed: int
    baseline_from_s: float
    folder: Path
    fault_prefix: str
    """Every name that a fault gives to something begins with it, so that it is found after a crash."""
    drivers: Drivers = field(default_factory=Drivers)
    correctness: Correctness | None = None
    """``None`` where the engine takes no prompts of token ids."""
    say: Callable[[str], None] = lambda text: None

    @property
    def longest_fault_s(self) -> float:
        """Seconds after which traffic of a fault ends by itself: the check of outputs and the watching may each
        take as long as the fault is held."""
        lasts: float = 2 * self.settings["hold"]
        return lasts + _FAULT_MARGIN_S

    def driver(self, target: Target | None = None) -> Driver:
        """The driver of the target or of one of its replicas; DriverFailed where it has none."""
        found = self.drivers.of(target or self.target)
        if found is None:
            raise DriverFailed(self.drivers.why_none(target or self.target))
        return found

    def counters(self, target: Target | None = None) -> EngineCounters:
        """The engine's page, read now; all unknown where it cannot be read."""
        return read_counters(target or self.target) or EngineCounters(*(None,) * 11)

    @property
    def block_size(self) -> int:
        """Tokens in a block, as the page or the curve tells it; a usual size where nothing does."""
        last = self.watch.curve.last
        return self.counters().block_size or (last.block_size if last else None) or _UNKNOWN_BLOCK_TOKENS

    def checking(self) -> Correctness:
        """The correctness probe, of a scenario that needs ``token_ids``."""
        assert self.correctness is not None
        return self.correctness


@dataclass(frozen=True, slots=True)
class Story:
    """What a scenario's page tells beside what is in its record; one or two plain sentences each."""

    fault: str
    signature: str
    """What the curve or the counters show while it lasts."""
    rollback: str
    safety: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault and the curve that is expected of it.

    ``expectations`` name numbers of the verdict: one that is missed makes it ``bad``. ``conditions`` do too: one
    that is missed says that the fault did not bite, so that nothing was tried; it makes the verdict ``invalid``.
    """

    name: str
    title: str
    expected: str
    """One sentence: what the curve should do."""
    parameters: Sequence[Parameter]
    """Its own, besides the common ones."""
    named: Sequence[str]
    """States by which the curve names the fault, the most telling first; none for a drill."""
    single_blow: bool
    """The fault is over as soon as it is injected; recovery may be seen while it is still watched."""
    fault: Callable[[Bench], Fault]
    expectations: Callable[[Settings], Sequence[Expectation]]
    story: Story
    conditions: Sequence[Expectation] = ()
    own_numbers: Callable[[Bench, Fault, Spans], Mapping[str, Number]] = lambda bench, fault, spans: {}
    remark: Callable[[Mapping[str, Number]], str] = lambda numbers: ""
    """What its own numbers add to the sentence of the verdict."""
    under_load: bool = True
    """Whether it is judged by the curve of a background load; else it is a drill on an engine without traffic."""
    needs: Sequence[Need] = ()

    def all_parameters(self) -> list[Parameter]:
        """Common parameters and its own."""
        return [*COMMON_PARAMETERS, *self.parameters]
