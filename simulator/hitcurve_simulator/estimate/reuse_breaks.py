"""Where shared prefixes end, and why."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np

from hitcurve_simulator.estimate.arrays import Ints
from hitcurve_simulator.estimate.volatile_text import Volatile, volatile_at
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.traces.text import Tokenizer

__all__ = ["Prompt", "ReuseBreak", "find_breaks", "first_divergences", "prompt_of"]

COMPARED_WITH = 8
"""Each prompt is compared with this many earlier ones of its group."""
LEAST_SHARE = 0.05
SHOWN = 24


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in tokens and, where it is known, as text."""

    tokens: Ints
    text: str | None


@dataclass(frozen=True, slots=True)
class ReuseBreak:
    """A place where prompts of a group stop to agree with earlier ones: the same place, the same kind of text.

    ``position`` is the first divergent token (the lower median), ``start`` the character at which the culprit
    stands; ``texts`` are two examples from there on.
    """

    group: str
    cause: str
    position: int
    start: int
    requests: int
    of_requests: int
    texts: tuple[str, str]

    @property
    def place(self) -> tuple[str, int]:
        """What tells the breaks of a group apart: cause and character."""
        return self.cause, self.start


def prompt_of(row: TraceRow, tokenizer: Tokenizer) -> Prompt:
    """The prompt of a row; ``tokenizer`` is the one that read it."""
    tokens = row.request.prompt_token_ids or ()
    text = tokenizer.text(list(tokens)) if row.from_text else None
    return Prompt(np.asarray(tokens, dtype=np.int64), text)


def find_breaks(prompts: Sequence[Prompt], group: str, tokenizer: Tokenizer) -> list[ReuseBreak]:
    """Breaks with a known cause that hit at least 5 % of the prompts of a group, the foremost first."""
    positions: dict[tuple[str, int], list[int]] = defaultdict(list)
    examples: dict[tuple[str, int], tuple[str, str]] = {}
    for place, other, position in first_divergences(prompts):
        volatile = _culprit(prompts[place], position, tokenizer)
        other_text, text = prompts[other].text, prompts[place].text
        if volatile is None or text is None or other_text is None:
            continue
        key = (volatile.cause, volatile.start)
        positions[key].append(position)
        shown = slice(volatile.start, volatile.start + SHOWN)
        examples.setdefault(key, (other_text[shown], text[shown]))
    breaks = [
        ReuseBreak(group, cause, median_low(those), start, len(those), len(prompts), examples[cause, start])
        for (cause, start), those in positions.items()
        if len(those) > 1 and len(those) >= LEAST_SHARE * len(prompts)
    ]
    return sorted(breaks, key=lambda one: (one.start, one.cause))


def first_divergences(prompts: Sequence[Prompt]) -> Iterator[tuple[int, int, int]]:
    """(prompt, earlier prompt, first divergent token) of each prompt that extends no earlier one."""
    earlier: deque[int] = deque(maxlen=COMPARED_WITH)
    for place, prompt in enumerate(prompts):
        best = max(((_common(prompt.tokens, prompts[other].tokens), other) for other in earlier), default=None)
        if best is not None and best[0] < min(len(prompt.tokens), len(prompts[best[1]].tokens)):
            yield place, best[1], best[0]
        earlier.append(place)


def _culprit(prompt: Prompt, position: int, tokenizer: Tokenizer) -> Volatile | None:
    if prompt.text is None:
        return None
    return volatile_at(prompt.text, len(tokenizer.text(prompt.tokens[:position].tolist())))


def _common(one: Ints, other: Ints) -> int:
    """Length of the common prefix."""
    length = min(len(one), len(other))
    differ = np.flatnonzero(one[:length] != other[:length])
    return int(differ[0]) if len(differ) else length
