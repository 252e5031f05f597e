"""A reset of the prefix cache, and how an engine's answer to it is to be read.

A status code alone says little. vLLM 0.8.5 to 0.25 answers 200 with an empty body whether or not anything was
cleared, 0.26 and later 200 with ``{"success": true|false}``; without its development endpoints it answers 404.
SGLang's ``/flush_cache`` answers 400 while requests run. What stays open is settled by a prompt of our own, sent
before and after: an engine that still has it cached has not been reset.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hitcurve_chaos.calls import Answer, NoAnswer, Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.faults.fault import BeforeStep, Injection, InjectionOutcome, Undo
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.targets import Target

__all__ = ["ResetFault", "read_answer", "settle"]

AnswerMeaning = Literal["applied", "refused", "unsupported", "unverified"]

_TRIES = 5
_FIRST_PAUSE_S = 0.2
_UNSUPPORTED = (401, 403, 404, 405, 501)
_TIMEOUT_S = 30.0
_PROBE_WORDS = 128


def read_answer(answer: Answer) -> AnswerMeaning:
    """What the answer to a reset says by itself; ``unverified`` where it does not say."""
    if answer.status in _UNSUPPORTED or answer.redirects:
        return "unsupported"
    if not 200 <= answer.status < 300:
        return "refused"
    values = answer.json()
    if isinstance(values, dict) and isinstance(values.get("success"), bool):
        return "applied" if values["success"] else "refused"
    return "unverified"


def settle(meaning: AnswerMeaning, cached_before: int | None, cached_after: int | None) -> InjectionOutcome:
    """The outcome, given how many tokens of the probe were cached before and after.

    Unknown token numbers leave the answer's own word. Tokens that are served after an answer that claims success
    come from another tier, or the claim is false: ``partial``.
    """
    if meaning in ("refused", "unsupported"):
        return meaning
    if cached_after is None or (not cached_before and cached_after == 0):
        return meaning
    if cached_after == 0:
        return "applied"
    if meaning == "unverified" and (cached_before is None or cached_after >= cached_before):
        return "refused"
    return "partial"


@dataclass(slots=True)
class ResetFault:
    """POSTs the reset: politely a few times with growing pauses, then, if allowed, preempting running requests."""

    target: Target
    transport: Transport
    probe: Probe
    clock: Clock
    preempt: bool
    """Whether to ask that running requests be preempted when the engine stays busy."""
    mark: Callable[[float], bool] | None
    """Tells the watcher of the applied reset at a time; ``None``: nobody is told."""
    probe_words: int = _PROBE_WORDS

    @property
    def trouble(self) -> str | None:
        """A single blow succeeds or not; nothing can go wrong later."""
        return None

    def record(self) -> dict[str, Any]:
        return {"fault": "reset_prefix_cache", "url": self.target.reset_url()}

    def inject(self) -> Injection:
        prompt = self.probe.new_prompt(self.probe_words)
        self.probe.ask(prompt)
        before = self.probe.ask(prompt).cached_tokens
        attempts: list[dict[str, Any]] = []
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, _TRIES + 1):
            injection = self._try(prompt, before, attempts, preempt=self.preempt and attempt == _TRIES)
            if injection.outcome != "refused" or attempt == _TRIES:
                return injection
            self.clock.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("unreachable")

    def tick(self, before_step: BeforeStep) -> None:
        """A reset is a single blow."""

    def undo(self) -> Undo:
        return Undo(True, "a reset leaves nothing to undo; traffic fills the cache again")

    def _try(self, prompt: str, before: int | None, attempts: list[dict[str, Any]], *, preempt: bool) -> Injection:
        url = self.target.reset_url(preempt=preempt)
        at_s = self.clock.now()
        try:
            answer = self.transport.send("POST", url, headers=self.target.admin_headers(), timeout_s=_TIMEOUT_S)
        except NoAnswer as error:
            attempts.append({"url": url, "error": str(error)})
            return Injection("failed", f"the reset got no answer ({error})", {"attempts": attempts})
        meaning = read_answer(answer)
        attempts.append({"url": url, "status": answer.status, "body": answer.body[:500], "meaning": meaning})
        after = None
        if meaning in ("applied", "unverified"):
            after = self.probe.ask(prompt).cached_tokens
        outcome = settle(meaning, before, after)
        marked = self.mark(at_s) if outcome == "applied" and self.mark is not None else False
        detail = {
            "attempts": attempts,
            "probe_cached_tokens_before": before,
            "probe_cached_tokens_after": after,
            "marked": marked,
        }
        return Injection(outcome, _sentence(outcome, answer, len(attempts), before, after), detail, at_s)


def _sentence(
    outcome: InjectionOutcome, answer: Answer, attempts: int, before: int | None, after: int | None
) -> str:
    said = answer.said
    match outcome:
        case "applied":
            return f"the prefix cache was reset (attempt {attempts}: {said})"
        case "refused":
            return (
                f"the engine refused the reset {attempts} times (last answer: {said}; probe {before} -> {after})"
            )
        case "unsupported" if answer.redirects:
            return f"the reset was not done ({said})"
        case "unsupported":
            return (
                f"the engine has no usable reset endpoint ({said}); a vLLM server offers it "
                "with VLLM_SERVER_DEV_MODE=1"
            )
        case "partial":
            return (
                f"the engine says it was reset ({said}) and still serves {after} of {before} probe tokens from a "
                "cache: another tier, or nothing was cleared"
            )
        case _:
            return f"nothing tells whether the cache was reset ({said}; the engine reports no cached tokens)"
