"""What traffic is: a thing that decides what is sent next."""

from typing import Protocol

from hitcurve_loadtests.prompts import Prompt

__all__ = ["Traffic"]


class Traffic(Protocol):
    """Decides what is sent next. Called by one thread."""

    def next(self) -> Prompt | None:
        """The request to send now; ``None`` where there is none, now or any more."""
        ...

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """The engine's reply to ``prompt``; ``None`` where the request failed."""
        ...
