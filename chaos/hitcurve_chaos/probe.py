"""Single requests of our own, outside the measured traffic.

Every prompt is drawn anew, so that a probe shares no prefix with the load and warms nothing that is measured.
"""

import random
from dataclasses import dataclass

from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.targets import Target

__all__ = ["Probe", "ProbeAnswer"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Whether the engine completed a request, and how many prompt tokens it took from a cache (if it says)."""

    completed: bool
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    reason: str | None = None


class Probe:
    """Sends completions with prompts nobody else sends."""

    def __init__(self, target: Target, transport: Transport, randomness: random.Random) -> None:
        self._target = target
        self._transport = transport
        self._random = randomness

    def new_prompt(self, words: int) -> str:
        """A prompt of so many random words; at least as many tokens for any tokenizer."""
        return " ".join("".join(self._random.choices(_LETTERS, k=4)) for _ in range(words))

    def ask(self, prompt: str, *, model: str | None = None) -> ProbeAnswer:
        """One completion of one token. Never raises."""
        body = {"model": model or self._target.model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        url = f"{self._target.engine}/v1/completions"
        try:
            answer = self._transport.send(
                "POST", url, json_body=body, headers=self._target.headers(), timeout_s=_TIMEOUT_S
            )
        except NoAnswer as error:
            return ProbeAnswer(False, reason=str(error))
        values = answer.json()
        if answer.status != 200 or not isinstance(values, dict) or not values.get("choices"):
            return ProbeAnswer(False, reason=f"{answer.status}: {answer.body[:200]}")
        usage = values.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return ProbeAnswer(True, details.get("cached_tokens"), usage.get("prompt_tokens"))
