"""One recorded request, and a trace of them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.profiles.spec import Api
from hitcurve_loadtests.prompts import MOST_TOKENS, Message

__all__ = ["Trace", "TraceRow", "checked_order", "lengths"]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A request; tokens, and seconds on the trace's own clock."""

    at_s: float | None
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int | str, ...] = ()
    """Blocks it begins with, as far as they are known. What has no id is shared with nobody."""
    scope: str = ""
    """Within which the ids mean something: the file, where a format numbers them file by file."""
    messages: tuple[Message, ...] = ()
    """The recorded text, where there is one; lengths and ids then do not count."""
    cache_salt: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """All requests in the order in which they are sent. ``block_size`` is the tokens of one hash id."""

    format: str
    block_size: int
    rows: tuple[TraceRow, ...]
    api: Api = "completions"


def lengths(values: Mapping[str, Any], where: str, names: tuple[str, str], default: int) -> tuple[int, int]:
    """Tokens of prompt and output (at least 1); UsageError where they are not whole numbers."""
    prompt = _count(values, names[0], where, default=default)
    if prompt < 1:
        raise UsageError(f"{where}: '{names[0]}' must be a whole number of tokens, at least 1.")
    return prompt, max(_count(values, names[1], where, default=1), 1)


def checked_order(rows: list[TraceRow], path: Path) -> tuple[TraceRow, ...]:
    """The rows, where their times are complete and do not run backwards; else UsageError."""
    if not rows:
        raise UsageError(f"the trace {path} holds no request; name a file with requests in it.")
    times = [row.at_s for row in rows]
    known = [at_s for at_s in times if at_s is not None]
    if known and len(known) < len(times):
        raise UsageError(
            f"{path}: some lines have a 'timestamp' and some have none; give all of them one or none."
        )
    if any(later < earlier for earlier, later in itertools.pairwise(known)):
        raise UsageError(f"{path}: the timestamps run backwards; sort the trace by 'timestamp'.")
    return tuple(rows)


def _count(values: Mapping[str, Any], name: str, where: str, *, default: int) -> int:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{where}: '{name}' must be a whole number of tokens.")
    if value > MOST_TOKENS:
        raise UsageError(f"{where}: '{name}' is {value}; no engine takes more than {MOST_TOKENS} tokens.")
    return value
