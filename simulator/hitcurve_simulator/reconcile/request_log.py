"""Logs of requests: what was asked, and what the log says became of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.traces.json_objects import read_objects
from hitcurve_simulator.traces.parse_row import RowParser, RowRefused
from hitcurve_simulator.traces.served import Served, served_of
from hitcurve_simulator.traces.text import Encoder

__all__ = ["LoggedRequest", "RequestLog", "read_logs"]

NO_PROMPT = "brings no prompt"
_MOST_SAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request of a log. ``row`` is None where the log does not say what was asked (``reason`` says why)."""

    file: str
    line: int
    served: Served
    row: TraceRow | None
    reason: str | None
    adapter: str | None
    tenant: str | None
    samples: int = 1
    """Answers asked for (``n``): the engine looks the prompt up for each."""

    @property
    def prompt_tokens(self) -> int | None:
        """By the engine's own count where the log has it, else by the tokenizer."""
        if self.served.prompt_tokens is not None:
            return self.served.prompt_tokens
        return None if self.row is None else self.row.request.prompt_tokens

    @property
    def query_tokens(self) -> int | None:
        """Tokens that the engine looks up: none for a request that may not read the cache."""
        if self.row is not None and self.row.request.skip_reading_prefix_cache:
            return 0
        return None if self.prompt_tokens is None else self.prompt_tokens * self.samples


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Requests in the order in which they were sent, and lines that are no requests."""

    name: str
    requests: tuple[LoggedRequest, ...]
    rejected: tuple[tuple[str, LineFinding], ...] = ()

    @property
    def failed(self) -> tuple[LoggedRequest, ...]:
        return tuple(request for request in self.requests if request.served.failure is not None)


def read_logs(
    paths: Sequence[Path],
    block_size: int,
    tokenizer: Encoder,
    on_line: Callable[[], None] = lambda: None,
) -> RequestLog:
    """Read JSON lines (or a JSON list) of requests; ``-`` is standard input. Raises UsageError.

    A line may be the body of a request, bare or under ``request`` or ``body``, with ``token_ids`` or ``hash_ids``
    in its place, or only the counts that a client keeps (``prompt_tokens``, ``cached_tokens``). Sorted by the
    time of sending where every line has one.
    """
    requests: list[LoggedRequest] = []
    rejected: list[tuple[str, LineFinding]] = []
    for path in paths:
        objects, unreadable = read_objects(path, on_line)
        rejected.extend((str(path), finding) for finding in unreadable)
        parser = RowParser(block_size, "s", tokenizer=tokenizer)
        for line, values in objects:
            if isinstance(values, Mapping):
                requests.append(_logged(path, line, values, parser))
            else:
                rejected.append((str(path), LineFinding(line, "not a JSON object")))
    if not requests:
        raise UsageError(f"{', '.join(map(str, paths))} holds no request; give the log of the traffic.")
    if all(request.served.started_s is not None for request in requests):
        requests.sort(key=lambda request: request.served.started_s or 0.0)
    name = paths[0].name if len(paths) == 1 else f"{len(paths)} files"
    return RequestLog(name, tuple(requests), tuple(rejected))


def _logged(path: Path, line: int, values: Mapping[str, Any], parser: RowParser) -> LoggedRequest:
    served = served_of(values)
    row, reason = None, None
    try:
        row, _ = parser.parse(line, values)
    except RowRefused as error:
        reason = str(error)
    if row is not None and row.request.prompt_token_ids is None and row.block_ids is None:
        row, reason = None, NO_PROMPT
    if row is None:
        reason = NO_PROMPT if _has_counts_only(values) else reason
        adapter, tenant = values.get("lora") or values.get("model"), values.get("tenant")
        return LoggedRequest(str(path), line, served, None, reason, _text(adapter), _text(tenant))
    request = replace(row.request, request_id=f"{path}:{line}")
    return LoggedRequest(
        str(path),
        line,
        served,
        replace(row, request=request),
        None,
        request.adapter,
        row.tenant,
        _samples(values),
    )


def _has_counts_only(values: Mapping[str, Any]) -> bool:
    return "prompt_tokens" in values and not any(name in values for name in ("request", "body", "hash_ids"))


def _samples(values: Mapping[str, Any]) -> int:
    inner = next((values[name] for name in ("body", "request") if isinstance(values.get(name), Mapping)), values)
    count = inner.get("n")
    return count if isinstance(count, int) and 1 <= count <= _MOST_SAMPLES else 1


def _text(value: object) -> str | None:
    return None if value is None else str(value)
