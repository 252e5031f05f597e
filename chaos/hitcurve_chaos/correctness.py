"""The correctness probe: what a cache serves must be what computing it would have given.

Every prompt is drawn anew, so its first answer is a cold one and serves as the reference: the second answer,
which may come from the cache, must be the same token for token, and so must the answer under a salt that nobody
used. Tokens that are served from a cache where nothing can be cached (a first-ever prompt, another salt, another
adapter, another prefix) are impossible hits. Both are the worst that a cache can do and are told first.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.probe import Probe, ProbeAnswer
from hitcurve_chaos.verdict import Number

__all__ = ["ANSWERED", "COMPARED", "WORST", "Correctness"]

WORST = (
    Expectation("wrong_outputs", "answers from the cache that differ from the computed ones", AtMost(0)),
    Expectation(
        "impossible_hit_tokens", "tokens served from a cache that cannot hold them", AtMost(0), optional=True
    ),
)
"""Judged first, in every scenario."""
ANSWERED = Expectation("unanswered_checks", "requests of the correctness probe that were not answered", AtMost(0))
COMPARED = Expectation(
    "outputs_compared", "answers from the cache that were compared with computed ones", AtLeast(1)
)

_OUTPUT_TOKENS = 8
_NEAR_TIE = 0.25
"""Nats. Where two tokens are that close the last bits of a sum decide, and those may differ by batch shape."""
_BLOCKS = 3
_TIMEOUT_S = 120.0


class _TimeIsUp(Exception):
    """A check may ask no more."""


@dataclass(slots=True)
class Correctness:
    """Compares answers and counts what is wrong. ``block_size`` in tokens, ``salts``: the engine takes salts."""

    probe: Probe
    block_size: int
    salts: bool
    compared: int = 0
    near_ties: int = 0
    wrong_outputs: int = 0
    impossible_tokens: int = 0
    tells_cached: bool = False
    unanswered: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    _serial: int = 0
    _may_ask: Callable[[], bool] | None = None

    def numbers(self) -> dict[str, Number]:
        """What was counted so far; ``None`` where nothing could be seen."""
        return {
            "wrong_outputs": self.wrong_outputs if self.compared or self.wrong_outputs else None,
            "impossible_hit_tokens": self.impossible_tokens if self.tells_cached else None,
            "outputs_compared": self.compared,
            "near_ties": self.near_ties,
            "unanswered_checks": len(self.unanswered),
        }

    def check(self, when: str, *, model: str | None = None, may_ask: Callable[[], bool] | None = None) -> None:
        """Whole blocks, a partial last block, a prefix of a cached prompt, and a spliced prompt.

        ``may_ask`` is asked before each request; once it says no the check ends, and what it saw so far counts.
        """
        self._may_ask = may_ask
        try:
            with suppress(_TimeIsUp):
                self._all_prompts(when, model)
        finally:
            self._may_ask = None

    def compare(self, prompt: Sequence[int], when: str, *, model: str | None = None) -> ProbeAnswer:
        """Ask a prompt that was never sent before twice, then under a new salt; returns the second answer."""
        computed = self.first_ever(prompt, f"{when}: a first-ever prompt", model=model)
        again = self.ask(prompt, model=model)
        self.same(again, computed, f"{when}: a prompt that is cached")
        if self.salts:
            salted = self.first_ever(prompt, f"{when}: a salt nobody used", model=model, salt=self.new_salt())
            self.same(salted, computed, f"{when}: the same prompt under another salt", of_cache=False)
        return again

    def first_ever(
        self,
        prompt: Sequence[int],
        what: str,
        *,
        model: str | None = None,
        salt: str | None = None,
        may_hit: int = 0,
    ) -> ProbeAnswer:
        """Ask what cannot be cached beyond its first ``may_hit`` tokens; more than that is impossible."""
        answer = self.ask(prompt, model=model, salt=salt)
        if answer.cached_tokens is not None and answer.cached_tokens > may_hit:
            self.impossible(answer.cached_tokens - may_hit, f"{what} found {answer.cached_tokens} tokens cached")
        return answer

    def ask(
        self,
        prompt: Sequence[int],
        *,
        model: str | None = None,
        salt: str | None = None,
        max_tokens: int = _OUTPUT_TOKENS,
        engine: str | None = None,
    ) -> ProbeAnswer:
        """A greedy answer of exactly ``max_tokens`` tokens, with token ids and margins."""
        if self._may_ask is not None and not self._may_ask():
            raise _TimeIsUp
        more = {"return_token_ids": True, "logprobs": 2, "ignore_eos": True}
        answer = self.probe.ask(
            prompt, model=model, salt=salt, max_tokens=max_tokens, more=more, engine=engine, timeout_s=_TIMEOUT_S
        )
        if not answer.completed:
            self.unanswered.append(answer.reason or "no reason")
        if answer.cached_tokens is not None:
            self.tells_cached = True
            if answer.prompt_tokens is not None and answer.cached_tokens >= answer.prompt_tokens:
                self.impossible(1, f"all {answer.prompt_tokens} tokens were cached, and nothing was computed")
        return answer

    def same(self, answer: ProbeAnswer, computed: ProbeAnswer, what: str, *, of_cache: bool = True) -> bool | None:
        """Compare two answers; ``None`` where there is nothing to compare or the engine all but tossed a coin."""
        if not answer.completed or not computed.completed or answer.output is None or computed.output is None:
            return None
        if of_cache and answer.cached_tokens == 0:
            return None
        at = _first_difference(answer.output, computed.output)
        if at is None:
            self.compared += of_cache
            return True
        if _near_tie(answer, at) or _near_tie(computed, at):
            self.near_ties += 1
            return None
        self.compared += of_cache
        self.wrong_outputs += 1
        self.findings.append(
            f"WRONG OUTPUT: {what} ({answer.cached_tokens} tokens cached) differs at token {at + 1}"
        )
        return False

    def impossible(self, tokens: int, what: str) -> None:
        """Note tokens that no cache can hold."""
        self.tells_cached = True
        self.impossible_tokens += tokens
        self.findings.append(f"IMPOSSIBLE HIT: {what}")

    def new_salt(self) -> str:
        """A salt nobody used, of letters and digits: vLLM refuses some others."""
        self._serial += 1
        return f"hitcurve-{self._serial}-{self.probe.new_word()}"

    def _all_prompts(self, when: str, model: str | None) -> None:
        size = self.block_size
        whole = self.probe.new_tokens(_BLOCKS * size)
        partial = self.probe.new_tokens(_BLOCKS * size + size // 2 + 1)
        for prompt in (whole, partial):
            self.compare(prompt, when, model=model)
        self._against_salted(partial[: 2 * size + 1], f"{when}: the begin of a cached prompt", model)
        self._spliced(when, model)

    def _against_salted(
        self, prompt: Sequence[int], what: str, model: str | None, may_hit: int | None = None
    ) -> None:
        answer = (
            self.ask(prompt, model=model) if may_hit is None else self.first_ever(prompt, what, may_hit=may_hit)
        )
        if self.salts:
            computed = self.first_ever(prompt, f"{what}, under a new salt", model=model, salt=self.new_salt())
            self.same(answer, computed, what)

    def _spliced(self, when: str, model: str | None) -> None:
        """The begin of one cached prompt with the end of another: only the begin may be found."""
        size = self.block_size
        first, second = (self.probe.new_tokens(2 * size) for _ in range(2))
        third, fourth = (self.probe.new_tokens(2 * size) for _ in range(2))
        for prompt in ([*first, *second, *third[:1]], [*third, *fourth, *first[:1]]):
            self.ask(prompt, model=model)
        mixed = [*third, *second, *third[:1]]
        self._against_salted(mixed, f"{when}: another prompt's blocks behind a cached begin", model, 2 * size)


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int | None:
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _near_tie(answer: ProbeAnswer, at: int) -> bool:
    margin = answer.margins[at] if at < len(answer.margins) else None
    return margin is not None and margin < _NEAR_TIE
