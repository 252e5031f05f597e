"""Replays a trace of hashed prompts (Mooncake's JSONL) as text that shares exactly what the trace shares.

A line: ``{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [id, ...]}``; each id
names a block of ``block_size`` tokens (512 in Mooncake's traces), the last block may be partial.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.prompts import Message, Prompt, make_text

__all__ = ["TraceReplay", "TraceRow", "due_times", "read_trace"]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request of a trace; tokens, and seconds since the trace began."""

    at_s: float | None
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int | str, ...]


class TraceReplay:
    """The rows of a trace in order, as prompts. A profile like any other, which ends with the last row.

    A block's text depends on the seed and its id alone and differs from any other block's within its first 12
    bytes. So two prompts have equal text exactly as far as their ids are equal, and an engine whose blocks are
    at most as large as the trace's and divide it finds exactly the sharing of the trace.
    """

    def __init__(
        self,
        rows: Sequence[TraceRow],
        *,
        seed: int,
        block_size: int,
        max_prompt_tokens: int | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        self._rows = iter(rows)
        self._seed = seed
        self._block_size = block_size
        self._max_prompt_tokens = max_prompt_tokens
        self._max_output_tokens = max_output_tokens
        self._sent = 0

    def next(self) -> Prompt | None:
        row = next(self._rows, None)
        if row is None:
            return None
        text = self._text(row)
        self._sent += 1
        output_tokens = min(row.output_tokens, self._max_output_tokens or row.output_tokens)
        group = f"block-{row.hash_ids[0]}" if row.hash_ids else "no-block"
        return Prompt(group, (Message("user", text),), output_tokens)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies: the trace already says what comes next."""

    def _text(self, row: TraceRow) -> str:
        length = min(row.input_tokens, self._max_prompt_tokens or row.input_tokens)
        needed = row.hash_ids[: -(-length // self._block_size)]
        text = "".join(make_text(self._block_size, self._seed, "block", block) for block in needed)
        missing = length - len(text)
        # Traces that list full blocks only leave a tail, which nobody shares.
        return text[:length] + make_text(max(missing, 0), self._seed, "tail", self._sent)


def due_times(rows: Sequence[TraceRow], speed: float) -> Iterator[float] | None:
    """When each row is sent, seconds after the start; ``None`` where the trace has no times."""
    times = [row.at_s for row in rows if row.at_s is not None]
    if len(times) < len(rows):
        return None
    return iter([(at_s - times[0]) / speed for at_s in times])


def read_trace(path: Path, block_size: int) -> list[TraceRow]:
    """All rows; UsageError naming file, line and cure where one cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            rows = [
                _row(line, f"{path}:{number}", block_size)
                for number, line in enumerate(file, start=1)
                if line.strip()
            ]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the trace {path} cannot be read: {error}; name a JSONL file with --trace.") from error
    if not rows:
        raise UsageError(f"the trace {path} holds no request; name a JSONL file with one request a line.")
    _check_order(rows, path)
    return rows


def _row(line: str, where: str, block_size: int) -> TraceRow:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON ({error}); a trace holds one JSON object a line.") from error
    if not isinstance(values, dict):
        raise UsageError(f"{where}: not a JSON object; a trace holds one JSON object a line.")
    hash_ids = values.get("hash_ids")
    if not isinstance(hash_ids, list) or not all(
        isinstance(block, (int, str)) and not isinstance(block, bool) for block in hash_ids
    ):
        raise UsageError(f"{where}: 'hash_ids' must be a list of integers or strings, one for each block.")
    input_tokens = _number(values, "input_length", where, default=len(hash_ids) * block_size)
    output_tokens = _number(values, "output_length", where, default=1)
    if len(hash_ids) not in (input_tokens // block_size, -(-input_tokens // block_size)):
        raise UsageError(
            f"{where}: {len(hash_ids)} hash ids do not fit {input_tokens} tokens in blocks of {block_size}; "
            "give the trace's own block size with --block-size."
        )
    timestamp = values.get("timestamp")
    if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, (int, float))):
        raise UsageError(f"{where}: 'timestamp' must be a number of milliseconds.")
    at_s = None if timestamp is None else timestamp / 1000
    return TraceRow(at_s, int(input_tokens), max(int(output_tokens), 1), tuple(hash_ids))


def _number(values: dict[str, Any], key: str, where: str, *, default: int) -> int:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (key == "input_length" and value < 1):
        raise UsageError(f"{where}: '{key}' must be a whole number of tokens.")
    return value


def _check_order(rows: Sequence[TraceRow], path: Path) -> None:
    times = [row.at_s for row in rows]
    known = [at_s for at_s in times if at_s is not None]
    if known and len(known) < len(times):
        raise UsageError(
            f"{path}: some lines have a 'timestamp' and some have none; give all of them one or none."
        )
    if any(later < earlier for earlier, later in itertools.pairwise(known)):
        raise UsageError(f"{path}: the timestamps run backwards; sort the trace by 'timestamp'.")
