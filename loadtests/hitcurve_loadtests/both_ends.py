"""The hit rate from both ends: what clients were told, what engines counted, what the exporter made of it.

Pages are read before the run and after it. A disagreement is explained as far as the figures tell why.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlsplit

from hitcurve.readers.exposition import MalformedLine, Series, parse_page
from hitcurve.sample import EngineSample
from hitcurve.scrape import fetch
from hitcurve_loadtests.engine_counters import EngineLookups, engine_lookups, lookups_during_run, read_engine

__all__ = ["BothEnds", "explain_host", "metrics_url"]

_QUERIES = "hitcurve_query_tokens_total"
_HITS = "hitcurve_hit_tokens_total"
_SEEN = "hitcurve_last_success_timestamp_seconds"
_TIMEOUT_S = 5.0
_LARGEST_PAGE_BYTES = 64 * 1024 * 1024
_EXPORTER_PATIENCE_S = 35.0
"""Two intervals of 15 s and a little: the exporter has scraped the end of the run by then."""
_POLL_S = 0.5
_ENDED = "since the run ended"

Page = tuple[EngineSample, ...] | str


class BothEnds:
    """Reads pages before and after one run."""

    def __init__(
        self,
        hosts: Sequence[str],
        exporter: str | None,
        *,
        read: Callable[[str], Page] = read_engine,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._hosts = hosts
        self._exporter = exporter
        self._read, self._clock, self._sleep = read, clock, sleep
        self._before: dict[str, Page] = {}
        self._after: dict[str, Page] = {}
        self._exported: dict[str, Any] | None = None
        self._exporter_before: Mapping[str, tuple[Series, ...]] | str = {}

    def begin(self) -> None:
        """Read everything before the first request."""
        self._before = {host: self._read(metrics_url(host)) for host in self._hosts}
        if self._exporter is not None:
            self._exporter_before = _exporter_page(self._exporter)

    @property
    def block_size(self) -> int | None:
        """Tokens of a block of the first host's engines, where its page tells."""
        page = self._before.get(self._hosts[0], "")
        sizes = {sample.block_size for sample in page} if isinstance(page, tuple) else {None}
        return sizes.pop() if len(sizes) == 1 else None

    def end(self) -> None:
        """Read everything after the last request; waits for the exporter's next look at the engines."""
        self._after = {host: self._read(metrics_url(host)) for host in self._hosts}
        self._exported = self._exporter_row()

    def table(self, totals: Mapping[str, Any]) -> dict[str, Any]:
        """Both ends side by side; ``totals`` is ``RunTotals.as_json``."""
        rows = [self._row(host, self._after[host], totals) for host in self._hosts]
        return {"hosts": rows, "exporter": self._exported}

    def together(self) -> EngineLookups:
        """What the engines of all hosts counted."""
        after = self._after
        if len(self._hosts) == 1:
            return engine_lookups(self._before[self._hosts[0]], after[self._hosts[0]])
        joined: list[list[EngineSample]] = [[], []]
        for host in self._hosts:
            for samples, page in zip(joined, (self._before[host], after[host]), strict=True):
                if isinstance(page, str):
                    return EngineLookups(None, None, None, page)
                samples += [_renamed(sample, host) for sample in page]
        return lookups_during_run(*joined)

    def _row(self, host: str, after: Page, totals: Mapping[str, Any]) -> dict[str, Any]:
        before = self._before[host]
        sums = totals["tokens_of_hosts"].get(host)
        client = dict(sums) if sums else {"query_tokens": 0, "hit_tokens": 0, "known": 0, "unknown": 0}
        client["hit_rate"] = client["hit_tokens"] / client["query_tokens"] if client["query_tokens"] else None
        lookups = engine_lookups(before, after)
        preempted = _preemptions(before, after)
        return {
            "host": host,
            "client": client,
            "engine": asdict(lookups),
            "engines": _each_engine(before, after),
            "preemptions": preempted,
            "explanation": explain_host(client, lookups, preempted, lost=totals["sent"] - totals["ok"]),
        }

    def _exporter_row(self) -> dict[str, Any] | None:
        if self._exporter is None:
            return None
        ended_s = self._clock()
        page = _exporter_page(self._exporter)
        while not isinstance(page, str) and not _seen_since(page, ended_s):
            if self._clock() - ended_s > _EXPORTER_PATIENCE_S:
                return {"engines": [], "reason": f"the exporter has not scraped every target {_ENDED}"}
            self._sleep(_POLL_S)
            page = _exporter_page(self._exporter)
        if isinstance(page, str) or isinstance(self._exporter_before, str):
            reason = page if isinstance(page, str) else self._exporter_before
            return {"engines": [], "reason": reason}
        return {"engines": _exporter_engines(self._exporter_before, page), "reason": None}


def metrics_url(host: str) -> str:
    """Where the engine at ``host`` prints its counters."""
    parts = urlsplit(host)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}/metrics"


def explain_host(
    client: Mapping[str, Any], engine: EngineLookups, preemptions: float | None, lost: int
) -> str | None:
    """Why both ends differ, ``None`` where they agree to the token. ``lost`` requests ended without an answer."""
    if engine.query_tokens is None or engine.hit_tokens is None:
        return f"the engine gives no value: {engine.reason or 'it counts blocks of unknown size'}"
    if client["unknown"] and not client["known"]:
        return "no request told its cached tokens; vLLM does with --enable-prompt-tokens-details"
    more = engine.query_tokens - client["query_tokens"]
    hits = engine.hit_tokens - client["hit_tokens"]
    if not more and not hits:
        return None
    causes = []
    if client["unknown"]:
        causes.append(f"{client['unknown']} requests did not tell their tokens")
    if lost:
        causes.append(f"{lost} requests were sent and not answered, the engine may have looked them up")
    if preemptions:
        causes.append(f"{preemptions:.0f} preemptions, whose second lookups some engines count and usage does not")
    if more > 0 and not causes:
        causes.append("other traffic reached the engine during the run")
    if more < 0:
        causes.append("some requests skipped the lookup, or another engine than the one on the page served them")
    if not more and hits:
        causes.append("usage counts hits of other tiers, or of samples beside the first")
    return (
        f"the engine looked up {more:+.0f} tokens and found {hits:+.0f} beside the clients' count: "
        + "; ".join(causes)
    )


def _each_engine(before: Page, after: Page) -> list[dict[str, Any]]:
    if isinstance(before, str) or isinstance(after, str):
        return []
    earlier = {sample.engine: sample for sample in before}
    return [
        {"engine": sample.engine, **asdict(lookups_during_run([earlier[sample.engine]], [sample]))}
        for sample in after
        if sample.engine in earlier
    ]


def _preemptions(before: Page, after: Page) -> float | None:
    if isinstance(before, str) or isinstance(after, str):
        return None
    counts = [[sample.preemptions for sample in page] for page in (before, after)]
    sums = [sum(value for value in page if value is not None) for page in counts]
    return sums[1] - sums[0] if all(value is not None for page in counts for value in page) else None


def _renamed(sample: EngineSample, host: str) -> EngineSample:
    return replace(sample, engine=f"{host} {sample.engine}")


def _exporter_page(url: str) -> Mapping[str, tuple[Series, ...]] | str:
    scrape = fetch(f"{url}/metrics", _TIMEOUT_S, _LARGEST_PAGE_BYTES)
    if scrape.error is not None or scrape.body is None or scrape.status != 200:
        return f"{url}/metrics: {scrape.error or f'HTTP {scrape.status}'}"
    body = scrape.body if isinstance(scrape.body, str) else scrape.body.decode("utf-8", "replace")
    try:
        page = parse_page(body, frozenset({_QUERIES, _HITS, _SEEN}))
    except MalformedLine as error:
        return f"{url}/metrics: {error}"
    return {name: tuple(page.series.get(name, ())) for name in (_QUERIES, _HITS, _SEEN)}


def _seen_since(page: Mapping[str, tuple[Series, ...]], since_s: float) -> bool:
    return bool(page[_SEEN]) and all(series.value >= since_s for series in page[_SEEN])


def _exporter_engines(
    before: Mapping[str, tuple[Series, ...]], after: Mapping[str, tuple[Series, ...]]
) -> list[dict[str, Any]]:
    """Increase of the exporter's own counters, which go on over restarts of an engine."""
    rows = []
    earlier = {name: {_key(series): series.value for series in before.get(name, ())} for name in (_QUERIES, _HITS)}
    hits_now = {_key(series): series.value for series in after[_HITS]}
    for series in after[_QUERIES]:
        key = _key(series)
        queries = series.value - earlier[_QUERIES].get(key, 0.0)
        hits = hits_now.get(key, 0.0) - earlier[_HITS].get(key, 0.0)
        rate = hits / queries if queries > 0 else None
        target, engine = series.labels.get("target"), series.labels.get("engine")
        rows.append(
            {"target": target, "engine": engine, "query_tokens": queries, "hit_tokens": hits, "hit_rate": rate}
        )
    return rows


def _key(series: Series) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(series.labels.items()))
