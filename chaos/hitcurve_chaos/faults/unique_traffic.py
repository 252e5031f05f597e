"""Pressure on the block pool: a second load whose large prompts share nothing with anybody.

Steered by what it causes (evictions, preemptions, lost hits of the background load), never by the usage gauge:
that one shows blocks held by running requests and is 0 on a full but idle cache (vllm-project/vllm#5176).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hitcurve_chaos.clock import Clock
from hitcurve_chaos.faults.fault import BeforeStep, Injection, Undo
from hitcurve_chaos.loads import Loads, RunningLoad

__all__ = ["PRESSURE", "UniqueTrafficFault", "pressure_size"]

PRESSURE = "pressure"
"""Its loads are called so in ``requests.jsonl``, with a number."""

_MOST_RAISES = 3


@dataclass(frozen=True, slots=True)
class PressureSize:
    """Prompts of so many tokens, so many a second."""

    prompt_tokens: int
    rate: float


def pressure_size(capacity_tokens: int, refill_s: float, *, prompt_tokens: int = 0) -> PressureSize:
    """Traffic that fills a pool of ``capacity_tokens`` once every ``refill_s`` seconds.

    Prompts are an eighth of the pool, within 128 and 2048 tokens, unless a size is given.
    """
    tokens = prompt_tokens or min(max(capacity_tokens // 8, 128), 2048)
    return PressureSize(tokens, capacity_tokens / refill_s / tokens)


@dataclass(slots=True)
class UniqueTrafficFault:
    """Runs the load, and doubles its rate (a few times at most) while it shows no effect."""

    loads: Loads
    clock: Clock
    size: PressureSize
    seed: int
    lasts_s: float
    """The load ends by itself after this time, should nobody be left to end it."""
    bites: Callable[[], bool]
    """Whether the pool feels it: something was evicted or preempted, or the background load lost hits."""
    most_per_s: float = 50.0
    raise_after_s: float = 3.0
    rate: float = field(init=False)
    trouble: str | None = field(init=False, default=None)
    raises: int = field(init=False, default=0)
    _load: RunningLoad | None = field(init=False, default=None)
    _started_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.rate = min(self.size.rate, self.most_per_s)

    def record(self) -> dict[str, Any]:
        return {"fault": "unique_traffic", "prompt_tokens": self.size.prompt_tokens, "rate": self.rate}

    def inject(self) -> Injection:
        self._start()
        sentence = f"{self.rate:.3g} unique prompts of {self.size.prompt_tokens} tokens a second"
        return Injection("applied", sentence, self.record())

    def tick(self, before_step: BeforeStep) -> None:
        self.trouble = self.trouble or (self._load.problem() if self._load else None)
        if self.trouble or self.raises >= _MOST_RAISES or self.rate >= self.most_per_s:
            return
        if self.clock.now() - self._started_s >= self.raise_after_s and not self.bites():
            self._stop()
            self.raises += 1
            self.rate = min(self.rate * 2, self.most_per_s)
            before_step({"load": self._load_name, "rate": self.rate})
            self._start()

    def undo(self) -> Undo:
        self._stop()
        return Undo(True, "the pressure load has ended", {"rate": self.rate, "raises": self.raises})

    @property
    def _load_name(self) -> str:
        return f"{PRESSURE}-{self.raises + 1}"

    def _start(self) -> None:
        settings = {
            "profile": "unique",
            "rate": self.rate,
            "prefix_tokens": self.size.prompt_tokens - 1,
            "suffix_tokens": 1,
            "seed": self.seed + 1 + self.raises,
            "duration": self.lasts_s,
        }
        self._load = self.loads.start(self._load_name, settings)
        self._load.await_effect()
        self._started_s = self.clock.now()

    def _stop(self) -> None:
        if self._load is not None:
            self._load.stop()
            self._load = None
