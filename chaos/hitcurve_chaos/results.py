"""What a whole run came to."""

from dataclasses import dataclass, field

from hitcurve_chaos.verdict import Skipped, Verdict

__all__ = ["Results"]


@dataclass(frozen=True, slots=True)
class Results:
    """What came of a run so far: verdicts in order, and scenarios that could not run."""

    verdicts: list[Verdict] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether something was tried and everything that was is ``ok``; what was skipped proves nothing."""
        return bool(self.verdicts) and all(verdict.verdict == "ok" for verdict in self.verdicts)
