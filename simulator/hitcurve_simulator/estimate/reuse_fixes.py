"""What it gains to move text that ends shared prefixes to the end of the prompt: each fix is replayed."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hitcurve_simulator.estimate.reuse_breaks import Prompt, ReuseBreak, find_breaks, prompt_of
from hitcurve_simulator.estimate.volatile_text import volatile_at
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.traces.text import Tokenizer

__all__ = ["FixedBreak", "Rates", "fix_breaks"]

LEAST_GAIN = 0.001
MOST_FIXES = 8
MOST_PENDING = 3
"""So many culprits may stand side by side: each has to go before any of them gains."""
MOST_GROUPS = 10


@dataclass(frozen=True, slots=True)
class Rates:
    """Hit rates of the same rows without a limit and in the pool that was asked for; None: no value."""

    ceiling: float | None
    in_pool: float | None

    def above(self, other: "Rates") -> bool:
        """Whether either rate is higher by more than a tenth of a point."""
        pairs = ((self.ceiling, other.ceiling), (self.in_pool, other.in_pool))
        return any(one - two > LEAST_GAIN for one, two in pairs if one is not None and two is not None)


@dataclass(frozen=True, slots=True)
class FixedBreak:
    """A break and the hit rates before and after the culprit is moved to the end of its prompt."""

    found: ReuseBreak
    before: Rates
    after: Rates


@dataclass(slots=True)
class _Fixer:
    tokenizer: Tokenizer
    rates: Callable[[Sequence[TraceRow]], Rates]
    rows: list[TraceRow]
    now: Rates

    def fix_group(self, group: str, members: Sequence[int]) -> list[FixedBreak]:
        """Move one culprit after the other, the foremost first; what gains nothing in the end is undone."""
        kept: list[FixedBreak] = []
        pending: list[FixedBreak] = []
        best_rows, best = self.rows, self.now
        prompts = [prompt_of(self.rows[place], self.tokenizer) for place in members]
        tried: set[tuple[str, int]] = set()
        while len(tried) < MOST_FIXES and len(pending) < MOST_PENDING:
            breaks = find_breaks(prompts, group, self.tokenizer)
            first = next((one for one in breaks if one.place not in tried), None)
            if first is None:
                break
            tried.add(first.place)
            before = self.now
            prompts = [_moved_to_end(prompt, first, self.tokenizer) for prompt in prompts]
            self._replay(members, prompts)
            pending.append(FixedBreak(first, before, self.now))
            if self.now.above(best):
                kept, pending = [*kept, *pending], []
                best_rows, best = self.rows, self.now
        self.rows, self.now = best_rows, best
        return kept

    def _replay(self, members: Sequence[int], prompts: Sequence[Prompt]) -> None:
        rows = list(self.rows)
        for place, prompt in zip(members, prompts, strict=True):
            request = replace(rows[place].request, prompt_token_ids=array("q", prompt.tokens.tobytes()))
            rows[place] = replace(rows[place], request=request)
        self.rows, self.now = rows, self.rates(rows)


def fix_breaks(
    rows: Sequence[TraceRow],
    groups: Sequence[str],
    tokenizer: Tokenizer,
    rates: Callable[[Sequence[TraceRow]], Rates],
) -> list[FixedBreak]:
    """Find and fix breaks in each of the groups with the most tokens; each gain is on top of those before it.

    A fix that gains nothing by itself is listed only where another one behind it does. Rows without text stay.
    """
    tokens: Counter[str] = Counter()
    members: dict[str, list[int]] = {}
    for place, (row, group) in enumerate(zip(rows, groups, strict=True)):
        if row.from_text:
            tokens[group] += row.request.prompt_tokens
            members.setdefault(group, []).append(place)
    fixer = _Fixer(tokenizer, rates, list(rows), rates(rows))
    return [
        fixed for group, _ in tokens.most_common(MOST_GROUPS) for fixed in fixer.fix_group(group, members[group])
    ]


def _moved_to_end(prompt: Prompt, found: ReuseBreak, tokenizer: Tokenizer) -> Prompt:
    text = prompt.text or ""
    volatile = volatile_at(text, found.start, found.cause)
    if volatile is None or volatile.start != found.start:
        return prompt
    culprit = text[volatile.start : volatile.end]
    moved = f"{text[: volatile.start]}{text[volatile.end :]} {culprit}"
    return Prompt(np.array(tokenizer.token_ids(moved), dtype=np.int64), moved)
