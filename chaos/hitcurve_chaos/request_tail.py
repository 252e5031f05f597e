"""``requests.jsonl`` of the run folder, followed while the load generators append to it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["BACKGROUND", "REQUESTS_FILE", "RequestRecord", "RequestTail", "cached_share", "ttft_p50_s"]

REQUESTS_FILE = "requests.jsonl"
BACKGROUND = "background"
"""Name of the load that runs all the time and is judged."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One finished request (docs/run_folder.md); unknown measures are ``None``."""

    at_s: float
    load: str
    model: str | None
    ok: bool
    reason: str | None
    ttft_s: float | None
    duration_s: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    late_s: float | None
    """How long after its scheduled time it was sent; ``None`` where there is no schedule."""


class RequestTail:
    """Follows the file: every ``follow`` reads the complete lines that were appended since."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / REQUESTS_FILE
        self._offset = 0
        self.records: list[RequestRecord] = []

    def follow(self) -> None:
        """Read what was appended; a file that does not exist yet is an empty one."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return
        complete, newline, _ = text.rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        for line in complete.splitlines():
            if (record := _record(line)) is not None:
                self.records.append(record)

    def between(self, from_s: float, to_s: float, load: str = BACKGROUND) -> list[RequestRecord]:
        """Requests of a load that were sent from ``from_s`` up to before ``to_s``."""
        return [record for record in self.records if record.load == load and from_s <= record.at_s < to_s]

    def completed_since(self, since_s: float, load: str = BACKGROUND) -> bool:
        """Whether a request sent after ``since_s`` has been answered in full."""
        return any(record.ok and record.load == load and record.at_s >= since_s for record in self.records)


def ttft_p50_s(records: Iterable[RequestRecord]) -> float | None:
    """Median time to first token in seconds of the requests that have one."""
    known = [record.ttft_s for record in records if record.ok and record.ttft_s is not None]
    return median(known) if known else None


def cached_share(records: Iterable[RequestRecord]) -> float | None:
    """Cached tokens / prompt tokens of the requests whose usage told both: the hit rate as clients saw it."""
    known = [
        (record.cached_tokens, record.prompt_tokens)
        for record in records
        if record.ok and record.cached_tokens is not None and record.prompt_tokens
    ]
    prompts = sum(prompt for _, prompt in known)
    return sum(cached for cached, _ in known) / prompts if prompts else None


def _record(line: bytes) -> RequestRecord | None:
    """``None`` for what a writer left of a line when its disk was full, or when it was killed."""
    try:
        values: dict[str, Any] = json.loads(line)
        return _of(values)
    except (ValueError, TypeError, KeyError):
        return None


def _of(values: dict[str, Any]) -> RequestRecord:
    return RequestRecord(
        at_s=values["at_s"],
        load=values["load"],
        model=values.get("model"),
        ok=values["outcome"] == "ok",
        reason=values.get("reason"),
        ttft_s=values.get("ttft_s"),
        duration_s=values.get("duration_s"),
        prompt_tokens=values.get("prompt_tokens"),
        cached_tokens=values.get("cached_tokens"),
        late_s=values.get("late_s"),
    )
