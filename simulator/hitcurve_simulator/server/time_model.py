"""How long a step of the simulated engine takes.

A step computes, for each scheduled request *i*, ``n_i`` new tokens on top of ``c_i`` tokens whose keys and values
are there already (cache hits and earlier steps). Each new token attends to everything before it and to itself::

    pairs = sum over i of  n_i * c_i + n_i * (n_i + 1) / 2
    step  = decode_ms_per_step / 1000                 fixed cost: weights are read once a step
          + prefill_us_per_token / 1e6 * sum of n_i   linear layers
          + attention_ns_per_pair / 1e9 * pairs       attention
    seconds = step / speed

Only uncached tokens count in ``n_i``, so time to first token falls with hits, but not to zero: the rest of the
prompt still attends to the whole prefix. A step that computes nothing takes no time.

With the defaults 1,000 uncached tokens take 4 + 50 + 5 = 59 ms, one decode step about 4 ms, and a prompt of 800
tokens 50 ms on a miss and 11 ms on a hit of 680 tokens. The figures are those of no particular machine.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from hitcurve.errors import UsageError

__all__ = ["TimeModel"]


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Costs of a step; all zero or positive, ``speed`` positive. UsageError where one is not finite."""

    prefill_us_per_token: float = 50.0
    attention_ns_per_pair: float = 10.0
    decode_ms_per_step: float = 4.0
    speed: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not math.isfinite(value):
                option = field.name.replace("_", "-")
                raise UsageError(f"--{option} {value} is not a finite number; give one.")

    def step_s(self, work: Iterable[tuple[int, int]]) -> float:
        """Seconds for one step; ``work`` holds (new tokens, tokens already computed) of each scheduled request."""
        new_tokens = pairs = 0
        for new, computed in work:
            new_tokens += new
            pairs += new * computed + new * (new + 1) // 2
        if not new_tokens:
            return 0.0
        seconds = (
            self.decode_ms_per_step / 1e3
            + self.prefill_us_per_token / 1e6 * new_tokens
            + self.attention_ns_per_pair / 1e9 * pairs
        )
        return seconds / self.speed
