"""Single requests of our own, outside the measured traffic.

Every prompt is drawn anew, so that a probe shares no prefix with the load and warms nothing that is measured.
"""

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.targets import Target

__all__ = ["PROBE", "Probe", "ProbeAnswer"]

PROBE = "probe"
"""Name of this traffic in ``requests.jsonl``."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Whether the engine completed a request, and how many prompt tokens it took from a cache (if it says)."""

    completed: bool
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    status: int | None = None
    reason: str | None = None


class Probe:
    """Sends completions with prompts nobody else sends."""

    def __init__(
        self, target: Target, transport: Transport, randomness: random.Random, clock: Clock, requests_file: Path
    ) -> None:
        self._target = target
        self._transport = transport
        self._random = randomness
        self._clock = clock
        self._requests_file = requests_file

    def new_prompt(self, words: int) -> str:
        """A prompt of so many random words; at least as many tokens for any tokenizer."""
        return " ".join("".join(self._random.choices(_LETTERS, k=4)) for _ in range(words))

    def ask(self, prompt: str, *, model: str | None = None) -> ProbeAnswer:
        """One completion of one token, told of in ``requests.jsonl`` like all traffic of a run."""
        at_s = self._clock.now()
        answer = self._ask(prompt, model or self._target.model)
        self._tell(at_s, model or self._target.model, answer)
        return answer

    def _ask(self, prompt: str, model: str) -> ProbeAnswer:
        body = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        url = f"{self._target.engine}/v1/completions"
        try:
            answer = self._transport.send(
                "POST", url, json_body=body, headers=self._target.headers(), timeout_s=_TIMEOUT_S
            )
        except NoAnswer as error:
            return ProbeAnswer(False, reason=str(error))
        values = answer.json()
        if answer.status != 200 or not isinstance(values, dict) or not values.get("choices"):
            return ProbeAnswer(False, status=answer.status, reason=answer.said)
        usage = values.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return ProbeAnswer(
            True,
            details.get("cached_tokens"),
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            answer.status,
        )

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
