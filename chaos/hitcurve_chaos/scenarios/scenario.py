"""What a scenario is: a record, not a class to inherit from."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hitcurve_chaos.calls import Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.faults.fault import Fault
from hitcurve_chaos.hypothesis import Expectation
from hitcurve_chaos.loads import Loads
from hitcurve_chaos.parameters import COMMON_PARAMETERS, Parameter, Settings
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Number
from hitcurve_chaos.watch import Watch

__all__ = ["Bench", "Scenario", "Spans"]


@dataclass(frozen=True, slots=True)
class Spans:
    """The times of a scenario run, Unix seconds."""

    baseline_from_s: float
    fault_from_s: float
    watched_to_s: float
    """Until when the fault was watched: its end where it lasts, ``hold`` seconds on where it is a single blow."""


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
    """States by which the curve names the fault, the most telling first."""
    single_blow: bool
    """The fault is over as soon as it is injected; recovery may be seen while it is still watched."""
    fault: Callable[[Bench], Fault]
    expectations: Callable[[Settings], Sequence[Expectation]]
    conditions: Sequence[Expectation] = ()
    own_numbers: Callable[[Bench, Fault, Spans], Mapping[str, Number]] = lambda bench, fault, spans: {}
    remark: Callable[[Mapping[str, Number]], str] = lambda numbers: ""
    """What its own numbers add to the sentence of the verdict."""

    def all_parameters(self) -> list[Parameter]:
        """Common parameters and its own."""
        return [*COMMON_PARAMETERS, *self.parameters]
