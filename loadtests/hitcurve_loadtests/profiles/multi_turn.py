"""Chats that grow: every turn sends the whole history, the engine's own replies included."""

from collections import deque
from dataclasses import dataclass

from hitcurve_loadtests.profiles.profile import ProfileSettings
from hitcurve_loadtests.prompts import Message, Prompt, make_text

__all__ = ["MultiTurn"]


@dataclass(slots=True)
class _Session:
    number: int
    history: tuple[Message, ...]
    turn: int = 0


class MultiTurn:
    """Keeps a number of chats open; the next request is the next turn of the chat that has waited longest.

    Where every open chat still waits for its reply, another one is opened, so that a slow engine does not slow
    the traffic down. A chat ends after its last turn, or when a request of it fails.
    """

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings
        self._open: dict[int, _Session] = {}
        self._ready: deque[_Session] = deque()
        self._opened = 0

    def next(self) -> Prompt:
        settings = self._settings
        if self._ready and len(self._open) >= settings.sessions:
            session = self._ready.popleft()
        else:
            session = self._begin()
        name = (settings.seed, "turn", session.number, session.turn)
        question = Message("user", make_text(settings.suffix_tokens, *name))
        session.history = (*session.history, question)
        session.turn += 1
        return Prompt(f"session-{session.number}", session.history, settings.output_tokens, session=session.number)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        session = self._open[prompt.session] if prompt.session is not None else None
        if session is None:
            return
        if reply is None or session.turn >= self._settings.turns:
            del self._open[session.number]
            return
        session.history = (*session.history, Message("assistant", reply))
        self._ready.append(session)

    def _begin(self) -> _Session:
        settings, number = self._settings, self._opened
        self._opened += 1
        group = number % settings.groups
        system = make_text(settings.prefix_tokens, settings.seed, "system", group)
        session = _Session(number, (Message("system", system),) if system else ())
        self._open[number] = session
        return session
