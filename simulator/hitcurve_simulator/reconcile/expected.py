"""What each request of a log should have found: without a limit, in the real pool, and in company."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hitcurve_simulator.reconcile.request_log import LoggedRequest
from hitcurve_simulator.reconcile.timed_replay import Fate, Visit, replay_visits
from hitcurve_simulator.simulate.choice import Choice, make_rules
from hitcurve_simulator.traces import TraceRow

__all__ = ["Expected", "expect"]


@dataclass(frozen=True, slots=True)
class Expected:
    """Tokens of one request. ``alone`` and ``predicted`` are hits in the pool, one request at a time and as many
    at once as there were; both are None where the request fits in no such pool."""

    query: int
    ceiling: int
    compulsory: int
    isolated: int
    tail: int
    alone: int | None
    predicted: int | None


def expect(
    requests: Sequence[LoggedRequest],
    warm: Sequence[LoggedRequest],
    choice: Choice,
    concurrency: int | None,
    on_visit: Callable[[], None] = lambda: None,
) -> list[Expected]:
    """Three replays: an unlimited pool, the pool of ``choice`` one by one, and that with requests at once.

    ``warm`` are sent before and only fill the cache. At once are the requests that were by the times of the log,
    or ``concurrency`` where it is given; a log without times is replayed one by one. Every request needs a row.
    """
    everything = [*warm, *requests]
    unlimited = _replayed(everything, _one_by_one(everything), replace(choice, pool_blocks=None), on_visit)
    alone = _replayed(everything, _one_by_one(everything), choice, on_visit)
    at_once = _times(everything, concurrency)
    together = alone if at_once is None else _replayed(everything, at_once, choice, on_visit)
    return [_expected(*fates) for fates in list(zip(unlimited, alone, together, strict=True))[len(warm) :]]


def visits_per_log(concurrency: int | None) -> int:
    """How many replays ``expect`` makes, for a progress bar."""
    return 3 if concurrency is None or concurrency > 1 else 2


Times = list[tuple[float, float]]


def _one_by_one(requests: Sequence[LoggedRequest]) -> Times:
    return [(float(place), float(place)) for place in range(len(requests))]


def _times(requests: Sequence[LoggedRequest], concurrency: int | None) -> Times | None:
    """When each came and left; None where they came one by one, or the log does not say."""
    if concurrency is not None:
        return None if concurrency == 1 else [(float(at), float(at + concurrency)) for at in range(len(requests))]
    times: Times = []
    for request in requests:
        start_s, end_s = request.served.started_s, request.served.ended_s
        if start_s is None or end_s is None:
            return None
        times.append((start_s, end_s))
    overlap = any(end_s > start_s for (_, end_s), (start_s, _) in pairwise(times))
    return times if overlap else None


def _replayed(
    requests: Sequence[LoggedRequest], times: Times, choice: Choice, on_visit: Callable[[], None]
) -> list[list[Fate | str]]:
    """The fates of each request, one for each of its samples."""
    visits = [
        Visit(row, *time) for request, time in zip(requests, times, strict=True) for row in _samples(request)
    ]
    fates = iter(
        replay_visits(
            visits,
            lambda observer: make_rules(choice, observer),
            choice.block_size,
            choice.pool_blocks,
            on_visit,
        )
    )
    return [[next(fates) for _ in range(request.samples)] for request in requests]


def _samples(request: LoggedRequest) -> Iterator[TraceRow]:
    assert request.row is not None
    yield request.row
    for number in range(1, request.samples):
        name = f"{request.row.request.request_id}, sample {number + 1}"
        yield replace(request.row, request=replace(request.row.request, request_id=name))


def _expected(unlimited: list[Fate | str], alone: list[Fate | str], together: list[Fate | str]) -> Expected:
    read = [fate for fate in unlimited if isinstance(fate, Fate) and fate.hit is not None]
    misses = {
        reason: sum(fate.misses.get(reason, 0) for fate in read) for reason in ("compulsory", "isolated", "tail")
    }
    ceiling = _hits(unlimited) or 0
    return Expected(
        query=ceiling + sum(misses.values()),
        ceiling=ceiling,
        alone=_hits(alone),
        predicted=_hits(together),
        **misses,
    )


def _hits(fates: list[Fate | str]) -> int | None:
    hits = 0
    for fate in fates:
        if isinstance(fate, str):
            return None
        hits += fate.hit or 0
    return hits
