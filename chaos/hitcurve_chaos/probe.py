"""Single requests of our own, outside the measured traffic.

Every prompt is drawn anew, so that a probe shares no prefix with the load and warms nothing that is measured.
"""

import json
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitcurve_chaos.calls import Answer, NoAnswer, Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.targets import Target

__all__ = ["MOST_AT_ONCE", "PROBE", "Probe", "ProbeAnswer", "Prompt", "read_answer"]

Prompt = str | Sequence[int]
"""Text, or token ids."""

PROBE = "probe"
"""Name of this traffic in ``requests.jsonl``."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TOKEN_IDS = range(33, 127)
"""Ids that every vocabulary has; single printable characters in most."""
_NONCE_TOKENS = 12
_TIMEOUT_S = 30.0
MOST_AT_ONCE = 64
"""Of the requests of one ``ask_all``."""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Whether the engine completed a request, what it answered, and how many prompt tokens came from a cache.

    Everything but ``completed`` is unknown (``None``) where the engine does not say it.
    """

    completed: bool
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    status: int | None = None
    reason: str | None = None
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    margins: tuple[float | None, ...] = ()
    """For each token, by how much (in nats) the engine preferred it to its second choice."""
    duration_s: float | None = None

    @property
    def output(self) -> tuple[int, ...] | str | None:
        """What was generated: token ids where the engine gives them, else the text."""
        return self.token_ids if self.token_ids is not None else self.text


class Probe:
    """Sends completions with prompts nobody else sends."""

    def __init__(
        self,
        target: Target,
        transport: Transport,
        randomness: random.Random,
        clock: Clock,
        requests_file: Path,
        nonce: random.Random | None = None,
    ) -> None:
        """``nonce`` makes prompts differ from those of every other run, also of one with the same seed."""
        self._nonce = nonce or random.SystemRandom()
        self._target = target
        self._transport = transport
        self._random = randomness
        self._clock = clock
        self._requests_file = requests_file

    def new_prompt(self, words: int) -> str:
        """A prompt of so many random words; at least as many tokens for any tokenizer."""
        return " ".join("".join(self._random.choices(_LETTERS, k=4)) for _ in range(words))

    def new_word(self) -> str:
        """Letters that no other run draws."""
        return "".join(self._nonce.choices(_LETTERS, k=_NONCE_TOKENS))

    def new_tokens(self, count: int) -> list[int]:
        """A prompt of exactly so many random token ids, the first of which no other run draws."""
        unique = min(count, _NONCE_TOKENS)
        return self._nonce.choices(_TOKEN_IDS, k=unique) + self._random.choices(_TOKEN_IDS, k=count - unique)

    def ask(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        salt: str | None = None,
        max_tokens: int = 1,
        more: Mapping[str, Any] | None = None,
        engine: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> ProbeAnswer:
        """One greedy completion, told of in ``requests.jsonl`` like all traffic of a run.

        ``more`` is added to the request's body; ``engine`` is another address than the target's.
        """
        at_s = self._clock.now()
        named = model or self._target.model
        body: dict[str, Any] = {"model": named, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        body |= {"cache_salt": salt} if salt is not None else {}
        answer = self._ask(body | dict(more or {}), engine or self._target.engine, timeout_s)
        self._tell(at_s, named, answer)
        return answer

    def ask_all(self, asks: Iterable[Callable[[], ProbeAnswer]], *, at_once: int = 8) -> list[ProbeAnswer]:
        """Several ``ask`` calls at the same time, answers in the order of the calls."""
        with ThreadPoolExecutor(min(at_once, MOST_AT_ONCE)) as pool:
            return [future.result() for future in [pool.submit(ask) for ask in asks]]

    def _ask(self, body: Mapping[str, Any], engine: str, timeout_s: float) -> ProbeAnswer:
        url, sent_s = f"{engine}/v1/completions", self._clock.now()
        try:
            answer = self._transport.send(
                "POST", url, json_body=body, headers=self._target.headers(), timeout_s=timeout_s
            )
        except NoAnswer as error:
            return ProbeAnswer(False, reason=str(error))
        return read_answer(answer, self._clock.now() - sent_s)

    def _tell(self, at_s: float, model: str, answer: ProbeAnswer) -> None:
        line = {
            "at_s": at_s,
            "load": PROBE,
            "profile": PROBE,
            "group": PROBE,
            "model": model,
            "status": answer.status,
            "outcome": "ok" if answer.completed else "failed",
            "reason": answer.reason,
            "ttft_s": None,
            "tpot_s": None,
            "duration_s": self._clock.now() - at_s,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "cached_tokens": answer.cached_tokens,
            "late_s": None,
        }
        # One write to a file opened for appending: load generators append to it at the same time.
        descriptor = os.open(self._requests_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)


def read_answer(answer: Answer, duration_s: float) -> ProbeAnswer:
    """What a completion's answer says; whatever in it is not of its kind is unknown."""
    values = _mapping(answer.json())
    choices = values.get("choices")
    if answer.status != 200 or not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ProbeAnswer(False, status=answer.status, reason=answer.said)
    usage, choice = _mapping(values.get("usage")), choices[0]
    ids, text = choice.get("token_ids"), choice.get("text")
    tokens = tuple(ids) if isinstance(ids, list) and all(_count(one) is not None for one in ids) else ()
    return ProbeAnswer(
        True,
        _count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        answer.status,
        text=text if isinstance(text, str) else None,
        token_ids=tokens or None,
        margins=_margins(choice.get("logprobs")),
        duration_s=duration_s,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _margins(logprobs: Any) -> tuple[float | None, ...]:
    """From the ``logprobs`` of a completion: first choice minus second choice, token by token."""
    top = _mapping(logprobs).get("top_logprobs")
    margins: list[float | None] = []
    for choices in top if isinstance(top, list) else ():
        known = [value for value in _mapping(choices).values() if isinstance(value, int | float)]
        best = sorted(known, reverse=True)
        margins.append(best[0] - best[1] if len(best) > 1 else None)
    return tuple(margins)
