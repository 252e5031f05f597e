"""What the tests of the engine patch share: a ledger that keeps what it yields."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from hitcurve_engine.ledger import Eviction, Ledger, Outcome, Regret


@dataclass
class Kept:
    """A ledger of 16-token blocks with everything it has yielded."""

    outcomes: list[Outcome] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    regrets: list[Regret] = field(default_factory=list)
    ledger: Ledger = field(init=False)

    def start(self, **options: Any) -> Ledger:
        """A new ledger with these options; what the last one yielded is forgotten."""
        for kept in (self.outcomes, self.evictions, self.regrets):
            kept.clear()
        self.ledger = Ledger(
            16,
            on_outcome=self.outcomes.append,
            on_eviction=self.evictions.append,
            on_regret=self.regrets.append,
            **options,
        )
        return self.ledger

    def one(self) -> Outcome:
        """The only outcome so far."""
        (outcome,) = self.outcomes
        return outcome


@pytest.fixture
def kept() -> Kept:
    """A ledger that keeps what it yields."""
    kept = Kept()
    kept.start()
    return kept
