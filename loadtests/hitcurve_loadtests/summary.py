"""What a load run showed, as the JSON object that ``load-NAME.json`` and ``--json`` hold (docs/loadtests.md)."""

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from hitcurve_loadtests.percentiles import Histogram
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.warming import WarmingCurve

__all__ = ["HitRate", "RunTotals", "RunVerdict", "client_hit_rate", "is_hit", "judge"]

RunVerdict = Literal["ok", "invalid", "no_data"]

_RECENT = 200
_SHOWN_REASONS = 3
_MOST_REASONS = 50
_OTHER_REASONS = "other reasons"


@dataclass(frozen=True, slots=True)
class HitRate:
    """Hit rate over the requests whose token counts are known: a ratio of sums, ``None`` where there are none."""

    hit_rate: float | None
    query_tokens: int
    hit_tokens: int
    known: int
    unknown: int


@dataclass(slots=True)
class _TokenSums:
    query_tokens: int = 0
    hit_tokens: int = 0
    known: int = 0
    unknown: int = 0

    def add(self, record: RequestRecord) -> None:
        """A failed request counts where the engine had reported its usage, for it was looked up all the same."""
        if record.prompt_tokens is None or record.cached_tokens is None or _impossible(record):
            self.unknown += 1
        else:
            self.known += 1
            self.query_tokens += record.prompt_tokens
            self.hit_tokens += record.cached_tokens

    def merge(self, values: Mapping[str, int]) -> None:
        for name, value in values.items():
            setattr(self, name, getattr(self, name) + value)

    def hit_rate(self) -> HitRate:
        rate = self.hit_tokens / self.query_tokens if self.query_tokens else None
        return HitRate(rate, self.query_tokens, self.hit_tokens, self.known, self.unknown)


@dataclass(slots=True)
class _Times:
    """The measures of a run, in seconds."""

    ttft: Histogram = field(default_factory=Histogram)
    ttft_hits: Histogram = field(default_factory=Histogram)
    ttft_misses: Histogram = field(default_factory=Histogram)
    ttft_scheduled: Histogram = field(default_factory=Histogram)
    first_content: Histogram = field(default_factory=Histogram)
    tpot: Histogram = field(default_factory=Histogram)
    duration: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)
    late: Histogram = field(default_factory=Histogram)
    hub_lag: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class RunTotals:
    """Everything that was measured so far, in memory that does not grow with the number of requests.

    The first ``warm_up`` requests to end are left out of the warm hit rate. ``as_json`` and ``merge`` carry the
    totals of a worker to whoever adds them up.
    """

    warm_up: int = 0
    sent: int = 0
    ok: int = 0
    failed: int = 0
    impossible_hits: int = 0
    """Requests that told more cached tokens than their prompt had, which are otherwise unknown."""
    measured_tokens: int = 0
    """Prompt tokens as engines counted them, of the requests whose length was known beforehand."""
    planned_tokens: int = 0
    """Prompt tokens of the same requests as they were meant to be."""
    planned_requests: int = 0
    ok_prompt_tokens: int = 0
    ok_completion_tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    tokens: _TokenSums = field(default_factory=_TokenSums)
    warm_tokens: _TokenSums = field(default_factory=_TokenSums)
    tokens_of_hosts: dict[str, _TokenSums] = field(default_factory=dict)
    times: _Times = field(default_factory=_Times)
    warming: WarmingCurve = field(default_factory=WarmingCurve)
    recent: deque[RequestRecord] = field(default_factory=lambda: deque(maxlen=_RECENT))

    @property
    def finished(self) -> int:
        return self.ok + self.failed

    def add(self, record: RequestRecord, host: str = "") -> None:
        """Count a finished request that was sent to ``host``."""
        self.recent.append(record)
        self.tokens.add(record)
        self.tokens_of_hosts.setdefault(host, _TokenSums()).add(record)
        if self.finished >= self.warm_up:
            self.warm_tokens.add(record)
        if _impossible(record):
            self.impossible_hits += 1
        elif record.prompt_tokens is not None and record.cached_tokens is not None:
            self.warming.add(record.prompt_tokens, record.cached_tokens, record.at_s + record.duration_s)
        if record.late_s is not None:
            self.times.late.add(record.late_s)
        if record.outcome == "failed":
            self.failed += 1
            reason = record.reason or "no reason"
            known = reason in self.failures or len(self.failures) < _MOST_REASONS
            self.failures[reason if known else _OTHER_REASONS] += 1
        else:
            self._add_good(record)

    def length_seen(self, planned: int, measured: int) -> None:
        """Prompt tokens of a request as meant, and as the engine counted them."""
        self.planned_requests += 1
        self.planned_tokens += planned
        self.measured_tokens += measured

    def prompt_tokens_off(self) -> float | None:
        """How many tokens longer than meant a prompt came out on average; ``None`` where nothing is known."""
        if not self.planned_requests:
            return None
        return (self.measured_tokens - self.planned_tokens) / self.planned_requests

    def hub_lagged(self, lag_s: float) -> None:
        self.times.hub_lag.add(lag_s)

    def client_hit_rate(self) -> HitRate:
        return self.tokens.hit_rate()

    def results(self, elapsed_s: float) -> dict[str, Any]:
        """Counts, hit rate, distributions and throughput of the whole run."""
        times = self.times
        return {
            "requests": {
                "sent": self.sent,
                "ok": self.ok,
                "failed": self.failed,
                "unfinished": self.sent - self.finished,
            },
            "failures": dict(self.failures),
            "impossible_hits": self.impossible_hits,
            "cache": asdict(self.tokens.hit_rate()),
            "warm": {"after_requests": self.warm_up, **asdict(self.warm_tokens.hit_rate())},
            "warming": self.warming.as_json(),
            "ttft_s": {
                "all": asdict(times.ttft.describe()),
                "hits": asdict(times.ttft_hits.describe()),
                "misses": asdict(times.ttft_misses.describe()),
                "since_scheduled": asdict(times.ttft_scheduled.describe()),
            },
            "first_content_s": asdict(times.first_content.describe()),
            "tpot_s": asdict(times.tpot.describe()),
            "request_duration_s": asdict(times.duration.describe()),
            "queue_s": asdict(times.queue.describe()),
            "throughput": {
                "requests_per_s": _rate(self.ok, elapsed_s),
                "prompt_tokens_per_s": _rate(self.ok_prompt_tokens, elapsed_s),
                "completion_tokens_per_s": _rate(self.ok_completion_tokens, elapsed_s),
            },
            "lag_s": {"hub": asdict(times.hub_lag.describe()), "send": asdict(times.late.describe())},
        }

    def as_json(self) -> dict[str, Any]:
        """All of it in plain values, for the process that adds up its workers."""
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "failures": dict(self.failures),
            "tokens": asdict(self.tokens),
            "warm_tokens": asdict(self.warm_tokens),
            "tokens_of_hosts": {host: asdict(sums) for host, sums in self.tokens_of_hosts.items()},
            "times": {name: getattr(self.times, name).as_json() for name in _TIMES},
            "warming": self.warming.sums(),
        }

    def merge(self, values: Mapping[str, Any]) -> None:
        """Add what ``as_json`` of another process gave. Recent requests stay this process's own."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + values[name])
        self.failures.update(values["failures"])
        self.tokens.merge(values["tokens"])
        self.warm_tokens.merge(values["warm_tokens"])
        for host, sums in values["tokens_of_hosts"].items():
            self.tokens_of_hosts.setdefault(host, _TokenSums()).merge(sums)
        for name in _TIMES:
            getattr(self.times, name).merge(Histogram.from_json(values["times"][name]))
        self.warming.merge(values["warming"])

    def _add_good(self, record: RequestRecord) -> None:
        times = self.times
        self.ok += 1
        self.ok_prompt_tokens += record.prompt_tokens or 0
        self.ok_completion_tokens += record.completion_tokens or 0
        times.duration.add(record.duration_s)
        if record.queue_s is not None:
            times.queue.add(record.queue_s)
        if record.tpot_s is not None:
            times.tpot.add(record.tpot_s)
        if record.first_content_s is not None:
            times.first_content.add(record.first_content_s)
        if record.ttft_s is None:
            return
        times.ttft.add(record.ttft_s)
        if record.late_s is not None:
            times.ttft_scheduled.add(record.ttft_s + record.late_s)
        hit = is_hit(record)
        if hit is not None:
            (times.ttft_hits if hit else times.ttft_misses).add(record.ttft_s)


_COUNTS = (
    *("sent", "ok", "failed", "impossible_hits", "ok_prompt_tokens", "ok_completion_tokens"),
    *("measured_tokens", "planned_tokens", "planned_requests"),
)
_TIMES = tuple(measure.name for measure in fields(_Times))


def is_hit(record: RequestRecord) -> bool | None:
    """Whether at least half of the prompt came from the cache; ``None`` where the engine did not say."""
    if record.cached_tokens is None or not record.prompt_tokens or _impossible(record):
        return None
    return 2 * record.cached_tokens >= record.prompt_tokens


def _impossible(record: RequestRecord) -> bool:
    prompt, cached = record.prompt_tokens, record.cached_tokens
    return prompt is not None and cached is not None and cached > prompt


def client_hit_rate(records: Collection[RequestRecord]) -> HitRate:
    """Cached tokens / prompt tokens over the requests for which both are known."""
    sums = _TokenSums()
    for record in records:
        sums.add(record)
    return sums.hit_rate()


def judge(results: Mapping[str, Any], max_lag_s: float) -> tuple[RunVerdict, list[str]]:
    """Whether the results may be relied on, and why not."""
    reasons = []
    requests = results["requests"]
    if requests["failed"]:
        shown = Counter(results["failures"]).most_common(_SHOWN_REASONS)
        kinds = "; ".join(f"{reason} ({count})" for reason, count in shown)
        reasons.append(f"{requests['failed']} of {requests['sent']} requests failed: {kinds}")
    if results["impossible_hits"]:
        reasons.append(
            f"{results['impossible_hits']} of {requests['sent']} requests told more cached tokens than their "
            "prompt had; the engine, or a gateway before it, counts them wrongly"
        )
    for kind, says in (("hub", "its event loop was blocked"), ("send", "requests were sent late")):
        lag = results["lag_s"][kind]["p99"]
        if lag is not None and lag > max_lag_s:
            reasons.append(
                f"the load generator lagged: {says} by {lag:.3f} s at p99, the limit is {max_lag_s:g} s"
            )
    if reasons:
        return "invalid", reasons
    if not requests["ok"]:
        return "no_data", ["no request finished"]
    return "ok", []


def _rate(amount: float, elapsed_s: float) -> float | None:
    return amount / elapsed_s if elapsed_s > 0 else None
