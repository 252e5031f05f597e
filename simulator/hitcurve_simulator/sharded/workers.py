"""Who does the work of shards."""

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Here", "Workers"]


class Workers(Protocol):
    """Starts functions and gives their results; a result that is still to come may be an argument."""

    @property
    def count(self) -> int:
        """How many work at once."""

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Begin; what is returned stands for the result. Functions are importable ones of a module."""

    def result(self, started: Any) -> Any:
        """Wait for what ``start`` returned."""


class Here:
    """All work in this process, one piece after the other."""

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def result(self, started: Any) -> Any:
        return started
