"""Hypotheses: what is expected of a value, with a typed tolerance, and how the value compared.

A value that is unknown is neither met nor missed; it makes the verdict ``no_data``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["AtLeast", "AtMost", "Between", "Expectation", "Judgement", "OneOf", "Tolerance", "Value"]

Value = float | int | str | None


class Tolerance(Protocol):
    """What a value may be."""

    @property
    def kind(self) -> str: ...

    def holds(self, value: float | int | str) -> bool: ...

    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number not below ``limit``."""

    limit: float
    kind: str = "at_least"

    def holds(self, value: float | int | str) -> bool:
        return not isinstance(value, str) and value >= self.limit

    def describe(self) -> str:
        return f"at least {self.limit:.4g}"


@dataclass(frozen=True, slots=True)
class AtMost:
    """A number not above ``limit``."""

    limit: float
    kind: str = "at_most"

    def holds(self, value: float | int | str) -> bool:
        return not isinstance(value, str) and value <= self.limit

    def describe(self) -> str:
        return f"at most {self.limit:.4g}"


@dataclass(frozen=True, slots=True)
class Between:
    """A number from ``low`` to ``high``, both included."""

    low: float
    high: float
    kind: str = "between"

    def holds(self, value: float | int | str) -> bool:
        return not isinstance(value, str) and self.low <= value <= self.high

    def describe(self) -> str:
        return f"between {self.low:.4g} and {self.high:.4g}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words."""

    words: Sequence[str]
    kind: str = "one_of"

    def holds(self, value: float | int | str) -> bool:
        return value in self.words

    def describe(self) -> str:
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a value compared; ``met`` is ``None`` where the value is unknown."""

    name: str
    value: Value
    met: bool | None
    sentence: str = ""
    """What was measured and what was expected, with the type of the tolerance: for the problems of a verdict."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A named value and its tolerance; ``meaning`` is what the value is, in words."""

    name: str
    meaning: str
    tolerance: Tolerance
    optional: bool = False
    """Whether an engine that does not report the value is let off."""

    def judge(self, value: Value) -> Judgement:
        """Compare; an unknown value is not judged."""
        expected = f"expected {self.tolerance.describe()} (tolerance {self.tolerance.kind})"
        if value is None:
            return Judgement(self.name, None, None, f"{self.meaning}: no value, {expected}")
        shown = value if isinstance(value, str) else f"{value:.4g}"
        return Judgement(self.name, value, self.tolerance.holds(value), f"{self.meaning}: {shown}, {expected}")
