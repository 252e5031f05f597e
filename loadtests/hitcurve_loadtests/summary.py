"""What a load run showed, as the JSON object that ``load-NAME.json`` and ``--json`` hold (docs/loadtests.md)."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hitcurve_loadtests.percentiles import Distribution, describe
from hitcurve_loadtests.records import RequestRecord

__all__ = ["HitRate", "RunTotals", "RunVerdict", "client_hit_rate", "is_hit", "judge"]

RunVerdict = Literal["ok", "invalid", "no_data"]

_RECENT = 200
_SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class HitRate:
    """Hit rate over the requests whose token counts are known: a ratio of sums, ``None`` where there are none."""

    hit_rate: float | None
    query_tokens: int
    hit_tokens: int
    known: int
    unknown: int


@dataclass(slots=True)
class RunTotals:
    """Everything that was measured so far."""

    sent: int = 0
    records: list[RequestRecord] = field(default_factory=list)
    hub_lags_s: list[float] = field(default_factory=list)
    recent: deque[RequestRecord] = field(default_factory=lambda: deque(maxlen=_RECENT))
    failed: int = 0

    def add(self, record: RequestRecord) -> None:
        self.records.append(record)
        self.recent.append(record)
        self.failed += record.outcome == "failed"

    def results(self, elapsed_s: float) -> dict[str, Any]:
        """Counts, hit rate, distributions and throughput of the whole run."""
        good = [record for record in self.records if record.outcome == "ok"]
        hits = [record for record in good if is_hit(record) is True]
        misses = [record for record in good if is_hit(record) is False]
        return {
            "requests": {
                "sent": self.sent,
                "ok": len(good),
                "failed": self.failed,
                "unfinished": self.sent - len(self.records),
            },
            "failures": dict(Counter(record.reason for record in self.records if record.reason)),
            "cache": asdict(client_hit_rate(self.records)),
            "ttft_s": {
                "all": asdict(_distribution(good, lambda record: record.ttft_s)),
                "hits": asdict(_distribution(hits, lambda record: record.ttft_s)),
                "misses": asdict(_distribution(misses, lambda record: record.ttft_s)),
            },
            "tpot_s": asdict(_distribution(good, lambda record: record.tpot_s)),
            "request_duration_s": asdict(_distribution(good, lambda record: record.duration_s)),
            "throughput": {
                "requests_per_s": _rate(len(good), elapsed_s),
                "prompt_tokens_per_s": _rate(sum(record.prompt_tokens or 0 for record in good), elapsed_s),
                "completion_tokens_per_s": _rate(sum(record.completion_tokens or 0 for record in good), elapsed_s),
            },
            "lag_s": {
                "hub": asdict(describe(self.hub_lags_s)),
                "send": asdict(_distribution(self.records, lambda record: record.late_s)),
            },
        }


def is_hit(record: RequestRecord) -> bool | None:
    """Whether at least half of the prompt came from the cache; ``None`` where the engine did not say."""
    if record.cached_tokens is None or not record.prompt_tokens:
        return None
    return 2 * record.cached_tokens >= record.prompt_tokens


def client_hit_rate(records: Collection[RequestRecord]) -> HitRate:
    """Cached tokens / prompt tokens over the requests for which both are known.

    A failed request counts where the engine had reported its usage, for it was looked up all the same.
    """
    known = [
        (record.prompt_tokens, record.cached_tokens)
        for record in records
        if record.prompt_tokens is not None and record.cached_tokens is not None
    ]
    queries, hits = sum(prompt for prompt, _ in known), sum(cached for _, cached in known)
    return HitRate(
        hit_rate=hits / queries if queries else None,
        query_tokens=queries,
        hit_tokens=hits,
        known=len(known),
        unknown=len(records) - len(known),
    )


def judge(results: Mapping[str, Any], max_lag_s: float) -> tuple[RunVerdict, list[str]]:
    """Whether the results may be relied on, and why not."""
    reasons = []
    requests = results["requests"]
    if requests["failed"]:
        shown = Counter(results["failures"]).most_common(_SHOWN_REASONS)
        kinds = "; ".join(f"{reason} ({count})" for reason, count in shown)
        reasons.append(f"{requests['failed']} of {requests['sent']} requests failed: {kinds}")
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


def _distribution(
    records: Collection[RequestRecord], measure: Callable[[RequestRecord], float | None]
) -> Distribution:
    return describe([value for record in records if (value := measure(record)) is not None])


def _rate(amount: float, elapsed_s: float) -> float | None:
    return amount / elapsed_s if elapsed_s > 0 else None
