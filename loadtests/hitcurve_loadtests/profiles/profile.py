"""What a traffic profile is, and the sizes it may be asked for."""

from dataclasses import dataclass
from typing import Protocol

from hitcurve_loadtests.prompts import Prompt

__all__ = ["Profile", "ProfileSettings"]


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """Sizes of the traffic; tokens are bytes of ASCII text (see ``hitcurve_loadtests.prompts``)."""

    seed: int
    groups: int = 8
    """How many prefixes are shared, each by the requests of one group."""
    prefix_tokens: int = 512
    suffix_tokens: int = 64
    output_tokens: int = 16
    zipf: float = 1.0
    """Group of rank r is asked with weight 1 / r**zipf; 0 asks all alike."""
    sessions: int = 8
    """Chats that are open at the same time."""
    turns: int = 6


class Profile(Protocol):
    """Decides what is sent next. Called by one thread."""

    def next(self) -> Prompt | None:
        """The request to send now; ``None`` where the traffic is over."""
        ...

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """The engine's reply to ``prompt``; ``None`` where the request failed."""
        ...
