"""Chats that grow: every turn sends the whole history, the engine's own replies included."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Length

__all__ = ["MultiTurn", "MultiTurnSizes"]


@dataclass(frozen=True, slots=True)
class MultiTurnSizes:
    """Sizes in tokens.

    ``prefix_tokens`` is the system prompt that every ``groups``-th chat has, ``suffix_tokens`` what a turn adds.
    """

    groups: int = 8
    prefix_tokens: int = 512
    suffix_tokens: Length = field(default=Length(64, 64))
    output_tokens: Length = field(default=Length(16, 16))
    sessions: int = 8
    """Chats that are open at the same time."""
    turns: int = 6
    order: Literal["longest-waiting", "random"] = "longest-waiting"
    """Whose turn is next, of the chats that have their reply."""
    ends: Literal["new-chat", "over"] = "new-chat"
    """What follows a chat's last turn: another chat, or nothing; then the traffic ends with the last chat."""


@dataclass(slots=True)
class _Session:
    number: int
    history: tuple[Message, ...]
    turn: int = 0


class MultiTurn:
    """Keeps a number of chats open; the next request is the next turn of one that has its reply.

    Where every open chat still waits for its reply, another one is opened, so that a slow engine does not slow
    the traffic down. A chat ends after its last turn, or when a request of it fails. Where chats are not replaced,
    a closed loop with fewer users than chats never needs the extra ones.
    """

    def __init__(self, sizes: MultiTurnSizes, texts: Texts) -> None:
        self._sizes = sizes
        self._texts = texts
        self._random = texts.random("multi-turn")
        self._open: dict[int, _Session] = {}
        self._ready: deque[_Session] = deque()
        self._opened = 0

    def next(self) -> Prompt | None:
        sizes = self._sizes
        if sizes.ends == "over":
            self._open_all_once()
            if not self._ready:
                return None
        if self._ready and len(self._open) >= (sizes.sessions if sizes.ends == "new-chat" else 0):
            session = self._take_ready()
        else:
            session = self._begin()
        name = ("turn", session.number, session.turn)
        question = Message("user", self._texts.fresh(sizes.suffix_tokens.draw(self._random), *name))
        session.history = (*session.history, question)
        session.turn += 1
        output_tokens = sizes.output_tokens.draw(self._random)
        return Prompt(f"session-{session.number}", session.history, output_tokens, session=session.number)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        session = self._open[prompt.session] if prompt.session is not None else None
        if session is None:
            return
        if reply is None or session.turn >= self._sizes.turns:
            del self._open[session.number]
            return
        session.history = (*session.history, Message("assistant", reply))
        self._ready.append(session)

    def _take_ready(self) -> _Session:
        if self._sizes.order == "longest-waiting":
            return self._ready.popleft()
        place = self._random.randrange(len(self._ready))
        session = self._ready[place]
        del self._ready[place]
        return session

    def _open_all_once(self) -> None:
        while self._opened < self._sizes.sessions:
            self._ready.append(self._begin())

    def _begin(self) -> _Session:
        sizes, number = self._sizes, self._opened
        self._opened += 1
        group = number % sizes.groups
        system = self._texts.shared(sizes.prefix_tokens, "system", group)
        session = _Session(number, (Message("system", system),) if system else ())
        self._open[number] = session
        return session
