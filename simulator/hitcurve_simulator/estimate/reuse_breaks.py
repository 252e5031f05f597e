"""Where shared prefixes end, why, and what it would gain to move the culprit to the end of the prompt."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

import numpy as np

from hitcurve_simulator.estimate.arrays import Ints
from hitcurve_simulator.estimate.volatile_text import Volatile, volatile_at
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.traces.text import Tokenizer

__all__ = ["FixedBreak", "ReuseBreak", "find_breaks", "first_divergences", "fix_breaks"]

COMPARED_WITH = 8
"""Each prompt is compared with this many earlier ones of its group."""
LEAST_SHARE = 0.05
LEAST_GAIN = 0.001
MOST_FIXES = 8
MOST_GROUPS = 10
SHOWN = 24

Rate = Callable[[Sequence[TraceRow]], float | None]


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
    def place(self) -> tuple[str, str, int]:
        """What tells breaks apart: group, cause and character."""
        return self.group, self.cause, self.start


@dataclass(frozen=True, slots=True)
class FixedBreak:
    """A break and the hit rate before and after the culprit is moved to the end of its prompt."""

    found: ReuseBreak
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class _Divergence:
    position: int
    volatile: Volatile
    texts: tuple[str, str]


def fix_breaks(
    rows: Sequence[TraceRow], groups: Sequence[str], tokenizer: Tokenizer, rate: Rate
) -> list[FixedBreak]:
    """Group by group: find the first break, move the culprit away, replay, and look again; until none is left.

    Each gain is on top of the fixes before it; ``rate`` is the hit rate of rows. A fix that gains nothing is kept
    only where another one behind it does. Only the groups with the most tokens are looked at.
    """
    tokens: Counter[str] = Counter()
    for row, group in zip(rows, groups, strict=True):
        tokens[group] += row.request.prompt_tokens
    fixed: list[FixedBreak] = []
    current = list(rows)
    for group, _ in tokens.most_common(MOST_GROUPS):
        members = [place for place, name in enumerate(groups) if name == group]
        found, current = _fix_group(current, members, group, tokenizer, rate)
        fixed += found
    return fixed


def _fix_group(
    rows: list[TraceRow], members: Sequence[int], group: str, tokenizer: Tokenizer, rate: Rate
) -> tuple[list[FixedBreak], list[TraceRow]]:
    kept: list[FixedBreak] = []
    pending: list[FixedBreak] = []
    best = current = rows
    tried: set[tuple[str, str, int]] = set()
    while len(tried) < MOST_FIXES:
        found = find_breaks([current[place] for place in members], [group] * len(members), tokenizer)
        first = next((one for one in found if one.place not in tried), None)
        if first is None:
            break
        tried.add(first.place)
        before = rate(current)
        current = list(current)
        for place in members:
            current[place] = _moved_to_end(current[place], first, tokenizer)
        after = rate(current)
        pending.append(FixedBreak(first, before, after))
        if before is not None and after is not None and after - before > LEAST_GAIN:
            kept, pending, best = [*kept, *pending], [], current
    return kept, best


def find_breaks(rows: Sequence[TraceRow], groups: Sequence[str], tokenizer: Tokenizer) -> list[ReuseBreak]:
    """Breaks with a known cause that hit at least 5 % of the requests of their group, the foremost first."""
    sizes = Counter(groups)
    found: dict[tuple[str, str, int], list[_Divergence]] = defaultdict(list)
    for group, divergence in _divergences(rows, groups, tokenizer):
        found[group, divergence.volatile.cause, divergence.volatile.start].append(divergence)
    breaks = [
        ReuseBreak(
            group=group,
            cause=cause,
            position=median_low(one.position for one in those),
            start=start,
            requests=len(those),
            of_requests=sizes[group],
            texts=those[0].texts,
        )
        for (group, cause, start), those in found.items()
        if len(those) > 1 and len(those) >= LEAST_SHARE * sizes[group]
    ]
    return sorted(breaks, key=lambda one: (one.group, one.start, one.cause))


def first_divergences(rows: Sequence[TraceRow], groups: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """(row, earlier row, first divergent token) of each row whose prompt does not extend an earlier one."""
    earlier: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=COMPARED_WITH))
    tokens = [np.asarray(row.request.prompt_token_ids or (), dtype=np.int64) for row in rows]
    for place, group in enumerate(groups):
        best = max(((_common(tokens[place], tokens[other]), other) for other in earlier[group]), default=None)
        if best is not None and best[0] < min(len(tokens[place]), len(tokens[best[1]])):
            yield place, best[1], best[0]
        earlier[group].append(place)


def _divergences(
    rows: Sequence[TraceRow], groups: Sequence[str], tokenizer: Tokenizer
) -> Iterator[tuple[str, _Divergence]]:
    for place, other, position in first_divergences(rows, groups):
        if not (rows[place].from_text and rows[other].from_text):
            continue
        text, other_text = _text(rows[place], tokenizer), _text(rows[other], tokenizer)
        at = len(tokenizer.text(list((rows[place].request.prompt_token_ids or ())[:position])))
        if (volatile := volatile_at(text, at)) is not None:
            shown = slice(volatile.start, volatile.start + SHOWN)
            yield groups[place], _Divergence(position, volatile, (other_text[shown], text[shown]))


def _moved_to_end(row: TraceRow, found: ReuseBreak, tokenizer: Tokenizer) -> TraceRow:
    text = _text(row, tokenizer) if row.from_text else ""
    volatile = volatile_at(text, found.start, found.cause)
    if volatile is None or volatile.start != found.start:
        return row
    culprit = text[volatile.start : volatile.end]
    tokens = tokenizer.token_ids(f"{text[: volatile.start]}{text[volatile.end :]} {culprit}")
    return replace(row, request=replace(row.request, prompt_token_ids=tokens))


def _text(row: TraceRow, tokenizer: Tokenizer) -> str:
    return tokenizer.text(list(row.request.prompt_token_ids or ()))


def _common(one: Ints, other: Ints) -> int:
    """Length of the common prefix."""
    length = min(len(one), len(other))
    differ = np.flatnonzero(one[:length] != other[:length])
    return int(differ[0]) if len(differ) else length
