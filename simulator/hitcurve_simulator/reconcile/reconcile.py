"""A log and the counters of the engines that served it, brought together and judged."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hitcurve_simulator.reconcile.expected import Expected, expect
from hitcurve_simulator.reconcile.gap import FOREIGN_SHARE, Row, row_of
from hitcurve_simulator.reconcile.measured import Measured
from hitcurve_simulator.reconcile.request_log import LoggedRequest, RequestLog
from hitcurve_simulator.simulate.choice import Choice

__all__ = ["EngineCheck", "Reconciliation", "Window", "reconcile"]

Word = Literal["ok", "bad", "no_data", "invalid"]


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch that the counters cover, in Unix seconds; None is open. Requests sent before it only warm."""

    from_s: float | None = None
    to_s: float | None = None


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """What an engine counted beside what the log says it was asked; tokens, None is unknown."""

    measured: Measured
    choice: Choice | None
    requests: int
    log_query_tokens: int | None
    told_cached_tokens: int | None
    """Sum of what clients were told was cached."""

    @property
    def foreign_tokens(self) -> float | None:
        """Looked up by the engine and not in the log; below zero: in the log and not looked up."""
        if self.measured.query_tokens is None or self.log_query_tokens is None:
            return None
        return self.measured.query_tokens - self.log_query_tokens


@dataclass(slots=True)
class Reconciliation:
    """``verdict``: invalid where the numbers do not speak of the same traffic, no_data where one is missing, bad
    where prediction and measurement lie further apart than ``tolerance_points``, else ok."""

    tolerance_points: float
    rows: list[Row] = field(default_factory=list)
    engines: list[EngineCheck] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    requests: int = 0
    failed: int = 0
    warm: int = 0
    later: int = 0

    @property
    def verdict(self) -> Word:
        if self.invalid:
            return "invalid"
        if self.missing:
            return "no_data"
        return "bad" if self.apart else "ok"

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is not ok."""
        return [*self.invalid, *self.missing, *self.apart]


def reconcile(
    log: RequestLog,
    measured: Sequence[Measured],
    choices: Sequence[Choice | None],
    window: Window,
    warm_log: RequestLog | None = None,
    concurrency: int | None = None,
    tolerance_points: float = 1.0,
    on_visit: Callable[[], None] = lambda: None,
) -> Reconciliation:
    """Compare; ``choices`` are the rules and pool of each of the engines in ``measured``, None where unknown."""
    found = Reconciliation(tolerance_points)
    warm, inside = _within(log, window, found)
    warm = [*(warm_log.requests if warm_log else ()), *warm]
    found.warm = len(warm)
    _check_requests(log, inside, found)
    if not inside:
        found.missing.append("no request of the log falls between the two readings of the counters")
        return found
    shares = _by_engine(inside, measured)
    if shares is None:
        found.missing.append(
            f"{len(measured)} engines were read and the log does not say which one served what; "
            "give its lines a field 'engine'"
        )
        found.engines = [EngineCheck(one, None, 0, None, None) for one in measured]
        found.rows = [
            row_of((one.engine, None, None), 0, None, (one.query_tokens, one.hit_tokens, "counters"))
            for one in measured
        ]
        return found
    for one, choice in zip(measured, choices, strict=True):
        share = shares.get(one.engine, [])
        own_warm = [request for request in warm if request.served.engine in (None, one.engine)]
        _add_engine(found, one, choice, share, own_warm, concurrency, on_visit)
    return found


def _within(
    log: RequestLog, window: Window, found: Reconciliation
) -> tuple[list[LoggedRequest], list[LoggedRequest]]:
    warm: list[LoggedRequest] = []
    inside: list[LoggedRequest] = []
    for request in log.requests:
        at_s = request.served.started_s
        if at_s is not None and window.from_s is not None and at_s < window.from_s:
            warm.append(request)
        elif at_s is not None and window.to_s is not None and at_s > window.to_s:
            found.later += 1
        else:
            inside.append(request)
    if found.later:
        found.notes.append(f"{found.later} requests were sent after the counters were read and are left out")
    if warm:
        found.notes.append(f"{len(warm)} requests were sent before the counters were first read and only warm")
    return warm, inside


def _check_requests(log: RequestLog, inside: Sequence[LoggedRequest], found: Reconciliation) -> None:
    found.requests = len(inside)
    failures = Counter(request.served.failure for request in inside if request.served.failure is not None)
    found.failed = failures.total()
    if failures:
        reason, count = failures.most_common(1)[0]
        found.invalid.append(f"{found.failed} of {len(inside)} requests failed ({count} of them: {reason})")
    if log.rejected:
        file, finding = log.rejected[0]
        found.invalid.append(
            f"{len(log.rejected)} lines of the log are no requests (the first: {file}, line {finding.line}: "
            f"{finding.reason})"
        )
    other = [
        request
        for request in inside
        if request.row is not None
        and request.served.prompt_tokens not in (None, request.row.request.prompt_tokens)
    ]
    if other:
        first = other[0]
        assert first.row is not None
        found.invalid.append(
            f"{len(other)} of {len(inside)} prompts have another length than the engine counted (line "
            f"{first.line}: {first.row.request.prompt_tokens} tokens, the engine says "
            f"{first.served.prompt_tokens}); give the model's --tokenizer, or engine"
        )


def _by_engine(
    inside: Sequence[LoggedRequest], measured: Sequence[Measured]
) -> dict[str, list[LoggedRequest]] | None:
    """Requests by engine; None where several engines may have served them."""
    names = [one.engine for one in measured]
    if len(names) == 1:
        return {names[0]: list(inside)}
    if not all(request.served.engine in names for request in inside):
        return None
    shares: dict[str, list[LoggedRequest]] = {}
    for request in inside:
        shares.setdefault(request.served.engine or "", []).append(request)
    return shares


def _add_engine(
    found: Reconciliation,
    measured: Measured,
    choice: Choice | None,
    requests: Sequence[LoggedRequest],
    warm: Sequence[LoggedRequest],
    concurrency: int | None,
    on_visit: Callable[[], None],
) -> None:
    answered = [request for request in requests if request.served.failure is None]
    expected = None
    if choice is not None and _all_known(found, measured, answered):
        known_warm = [request for request in warm if request.row is not None]
        expected = expect(answered, known_warm, choice, concurrency, on_visit)
    check = EngineCheck(
        measured,
        choice,
        len(requests),
        _sum([request.query_tokens for request in answered]),
        _sum([request.served.cached_tokens for request in answered]),
    )
    found.engines.append(check)
    rows = _rows(measured, answered, expected)
    found.rows.extend(rows)
    _judge(found, check, rows[0], expected)


def _all_known(found: Reconciliation, measured: Measured, answered: Sequence[LoggedRequest]) -> bool:
    unknown = [request for request in answered if request.row is None]
    if unknown:
        first = unknown[0]
        found.missing.append(
            f"{len(unknown)} of {len(answered)} requests cannot be replayed (the first: {first.file}, line "
            f"{first.line}: {first.reason}), so that engine {measured.engine} has neither ceiling nor prediction"
        )
    return bool(answered) and not unknown


def _rows(measured: Measured, answered: Sequence[LoggedRequest], expected: Sequence[Expected] | None) -> list[Row]:
    """The engine's row by its counters, and one for each adapter and tenant by ``usage``."""
    groups: dict[tuple[str | None, str | None], list[int]] = {}
    for place, request in enumerate(answered):
        groups.setdefault((request.adapter, request.tenant), []).append(place)
    only = next(iter(groups)) if len(groups) == 1 else (None, None)
    counted = (measured.query_tokens, measured.hit_tokens, "counters")
    rows = [row_of((measured.engine, *only), len(answered), expected, counted)]
    for names, places in groups.items() if len(groups) > 1 else ():
        those = [answered[place] for place in places]
        told = (
            _sum([request.query_tokens for request in those]),
            _sum([request.served.cached_tokens if request.samples == 1 else None for request in those]),
        )
        usage = (*told, None if told[1] is None else "usage")
        own = None if expected is None else [expected[place] for place in places]
        rows.append(row_of((measured.engine, *names), len(those), own, usage))
    return rows


def _judge(found: Reconciliation, check: EngineCheck, row: Row, expected: Sequence[Expected] | None) -> None:
    engine = check.measured.engine
    found.invalid.extend(f"engine {engine}: {problem}" for problem in check.measured.problems)
    foreign, asked = check.foreign_tokens, check.log_query_tokens
    if foreign is not None and asked is not None and abs(foreign) > FOREIGN_SHARE * asked:
        what = "foreign traffic" if foreign > 0 else "requests of the log that it did not serve"
        found.invalid.append(
            f"engine {engine} looked up {check.measured.query_tokens:,.0f} tokens and the log holds {asked:,}: "
            f"{what}"
        )
    if expected is not None and any(one.predicted is None for one in expected) and check.choice is not None:
        count = sum(one.predicted is None for one in expected)
        found.invalid.append(
            f"{count} requests fit in no pool of {check.choice.pool_blocks} blocks and were answered; "
            "correct --pool-blocks"
        )
    if not check.measured.query_tokens:
        found.missing.append(f"engine {engine} looked nothing up")
        return
    told, hits = check.told_cached_tokens, check.measured.hit_tokens
    if told is not None and hits is not None and told != hits:
        found.notes.append(f"engine {engine} counted {hits:,.0f} hit tokens, its clients were told {told:,}")
    predicted, measured = row.prediction_rate, row.measured_rate
    same = row.gaps["unknown"] is not None
    if same and row.ceiling is not None and hits is not None and hits > row.ceiling:
        found.notes.append(
            f"engine {engine} found more than this log alone allows: its cache was warm before (--warm LOG)"
        )
    if predicted is not None and measured is not None:
        points = 100 * (predicted - measured)
        if abs(points) > found.tolerance_points:
            found.apart.append(
                f"engine {engine}: predicted {predicted:.2%}, measured {measured:.2%}: {points:+.2f} points, more "
                f"than {found.tolerance_points:g}"
            )
    elif not found.missing:
        found.missing.append(f"engine {engine}: no prediction, since its rules, block size or pool are unknown")


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
