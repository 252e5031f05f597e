"""What traffic is meant to share, worked out before anything is sent: the yardstick of the run.

The requests are played in order, each against all before it of the same model and salt, with replies of the length
asked for. Prompts are tokens of the run's own text maker; a chat's roles are written as the simulated engine has
them, so for other templates the figures are near, not exact.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.traffic import Traffic

__all__ = ["Intended", "PlannedRequest", "intended", "planned"]

_MOST_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request as it is meant to be sent, and the reply it is meant to get."""

    prompt: Prompt
    text: str
    reply: str


@dataclass(frozen=True, slots=True)
class Intended:
    """Shares of prompt tokens of the ``requests`` after the first ``warm_up``, in tokens.

    ``shared`` counts to the last shared token (but never the last token of a prompt, which is always computed);
    ``ceiling`` is what an unlimited cache of whole blocks of ``block_size`` tokens finds of it.
    """

    requests: int
    warm_up: int
    prompt_tokens: int
    shared: float | None
    block_size: int | None
    ceiling: float | None


def planned(traffic: Traffic, texts: Texts, *, chat: bool) -> Iterator[PlannedRequest]:
    """The requests in order, each answered before the next; replies are stand-ins of the length asked for."""
    number = 0
    while (prompt := traffic.next()) is not None:
        reply = texts.fresh(prompt.output_tokens, "stand-in for a reply", number)
        yield PlannedRequest(prompt, _chat_text(prompt.messages) if chat else prompt.text, reply)
        traffic.answered(prompt, reply)
        number += 1


def intended(
    traffic: Traffic, texts: Texts, *, chat: bool, requests: int, warm_up: int, block_size: int | None
) -> Intended:
    """Play the traffic; at most a million prompt tokens of it, ``requests`` tells how many that were."""
    seen = _Prefixes()
    played = counted = tokens = shared = in_blocks = 0
    for request in planned(traffic, texts, chat=chat):
        prompt = texts.maker.tokens(request.text)
        space = (request.prompt.model_rank, request.prompt.cache_salt)
        length = min(seen.longest(space, prompt), max(len(prompt) - 1, 0))
        # The last token of a reply is returned but never computed, so it is in no cache.
        seen.add(space, [*prompt, *texts.maker.tokens(request.reply)[:-1]])
        if played >= warm_up:
            tokens += len(prompt)
            shared += length
            in_blocks += length // block_size * block_size if block_size else 0
        played += 1
        counted += len(prompt)
        if played >= requests or counted >= _MOST_TOKENS:
            break
    return Intended(
        requests=played,
        warm_up=warm_up,
        prompt_tokens=tokens,
        shared=shared / tokens if tokens else None,
        block_size=block_size,
        ceiling=in_blocks / tokens if tokens and block_size else None,
    )


def _chat_text(messages: Sequence[Message]) -> str:
    return "".join(f"[{message.role}] {message.text}\n" for message in messages) + "[assistant] "


class _Prefixes:
    """A tree of all token sequences added so far: a number for each node, an entry for each edge."""

    def __init__(self) -> None:
        self._edges: dict[tuple[int, Any], int] = {}

    def longest(self, space: Hashable, tokens: Sequence[Hashable]) -> int:
        node = self._edges.get((0, space))
        if node is None:
            return 0
        for length, token in enumerate(tokens):
            node = self._edges.get((node, token))
            if node is None:
                return length
        return len(tokens)

    def add(self, space: Hashable, tokens: Sequence[Hashable]) -> None:
        edges = self._edges
        node = edges.setdefault((0, space), len(edges) + 1)
        for token in tokens:
            node = edges.setdefault((node, token), len(edges) + 1)
