"""The traffic of one scrape as evidence, and sums of it."""

from dataclasses import dataclass

from hitcurve.reading import Interval

__all__ = ["Batch", "Sum", "batch_from"]


_LEAST_REQUESTS = 1e-3


@dataclass(frozen=True, slots=True)
class Batch:
    """What one interval proves. Volumes in tokens; ``requests`` is estimated where the engine counts none."""

    from_s: float
    to_s: float
    queries: float
    hits: float
    requests: float
    requests_known: bool
    volume_known: bool = True

    @property
    def rate(self) -> float:
        return self.hits / self.queries


def batch_from(interval: Interval, tokens_per_request: float) -> Batch | None:
    """The interval as evidence; ``None`` where nothing was looked up or nothing is known.

    More hits than queries (a page read between two increments) count as all hit. A rate without volumes
    (blocks of unknown size) weighs as its requests, or as one request where those are unknown too.
    """
    requests = interval.requests if interval.requests is not None and interval.requests > 0 else None
    if interval.queries is None or interval.hits is None:
        if interval.hit_rate is None:
            return None
        queries = (requests or 1.0) * tokens_per_request
        hits = queries * interval.hit_rate
    else:
        queries, hits = interval.queries, interval.hits
    if queries <= 0:
        return None
    return Batch(
        from_s=interval.from_s,
        to_s=interval.to_s,
        queries=queries,
        hits=min(max(hits, 0.0), queries),
        requests=max(queries / tokens_per_request, _LEAST_REQUESTS) if requests is None else max(requests, 1.0),
        requests_known=requests is not None,
        volume_known=interval.queries is not None,
    )


@dataclass(slots=True)
class Sum:
    """Sums over batches: a rate from it is a ratio of sums."""

    from_s: float = 0.0
    to_s: float = 0.0
    queries: float = 0.0
    hits: float = 0.0
    requests: float = 0.0
    effective: float = 0.0
    """Requests after their noise: what an equal number of independent, equally large requests would prove."""
    scrapes: float = 0.0

    @property
    def rate(self) -> float | None:
        return self.hits / self.queries if self.queries > 0 else None

    @property
    def cautious_rate(self) -> float:
        """The rate drawn towards one half by one hit and one miss, so that little evidence is never extreme."""
        return ((self.rate or 0.0) * self.effective + 1.0) / (self.effective + 2.0)

    def add(self, batch: Batch, effective: float) -> None:
        if self.scrapes == 0:
            self.from_s = batch.from_s
        self.to_s = batch.to_s
        self.queries += batch.queries
        self.hits += batch.hits
        self.requests += batch.requests
        self.effective += effective
        self.scrapes += 1

    def merge(self, later: "Sum") -> None:
        if self.scrapes == 0:
            self.from_s = later.from_s
        self.to_s = later.to_s
        self.queries += later.queries
        self.hits += later.hits
        self.requests += later.requests
        self.effective += later.effective
        self.scrapes += later.scrapes

    def decay(self, factor: float) -> None:
        self.queries *= factor
        self.hits *= factor
        self.requests *= factor
        self.effective *= factor
        self.scrapes *= factor
