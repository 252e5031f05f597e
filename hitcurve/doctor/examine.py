"""Looking at replicas: each /metrics page once, and what their HTTP API says of itself. Nothing is changed."""

import ipaddress
import json
import math
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from hitcurve.address import base_address
from hitcurve.doctor.findings import Fleet
from hitcurve.doctor.local_process import listening_process
from hitcurve.doctor.observed import RESET_PATH, Engine, LocalProcess, PromptLengths, Replica
from hitcurve.errors import EnvironmentFailed
from hitcurve.readers import PageRefused, read_page
from hitcurve.readers.exposition import MalformedLine, Series, parse_page
from hitcurve.sample import EngineSample
from hitcurve.scrape import Scrape, fetch

__all__ = ["Fetch", "examine"]

Fetch = Callable[[str, float, int], Scrape]

_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_THREADS: Final = 32
_PREFIXES: Final = ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_")
_PATCH: Final = "hitcurve_engine_"
_MISS_TOKENS: Final = "hitcurve_engine_miss_tokens_total"
_POOL_HITS: Final = "hitcurve_engine_pool_curve_hit_tokens_total"


def examine(
    urls: Sequence[str],
    *,
    prometheus: str | None,
    timeout_s: float,
    fetch: Fetch = fetch,
    process: Callable[[int], LocalProcess | None] = listening_process,
    wall: Callable[[], float] = time.time,
) -> Fleet:
    """All replicas at once. EnvironmentFailed where the Prometheus that was named does not answer."""
    addresses = list(dict.fromkeys(base_address(url) for url in urls))
    names = None if prometheus is None else _prometheus_names(base_address(prometheus), timeout_s, fetch)
    with ThreadPoolExecutor(min(len(addresses), _MOST_THREADS)) as pool:
        replicas = list(pool.map(lambda one: _replica(one, timeout_s, fetch, process, wall), addresses))
    return Fleet(replicas, names)


def _replica(
    address: str,
    timeout_s: float,
    fetch: Fetch,
    process: Callable[[int], LocalProcess | None],
    wall: Callable[[], float],
) -> Replica:
    parts = urllib.parse.urlsplit(address)
    loopback = _is_loopback(parts.hostname or "")
    seen = Replica(parts.netloc + parts.path, loopback)
    scrape = fetch(f"{address}/metrics", timeout_s, _MOST_BYTES)
    try:
        engines = _engines(scrape, wall())
    except PageRefused as refused:
        return replace(seen, failure=refused.reason)
    asked = {path: _json(fetch(address + path, timeout_s, _MOST_BYTES)) for path in _API}
    models = _models(asked["/v1/models"])
    return replace(
        seen,
        engines=engines,
        version=_text(asked["/version"], "version"),
        models=None if models is None else models[0],
        adapters=None if models is None else models[1],
        paths=_keys(asked["/openapi.json"], "paths") or _reset_path(address, timeout_s, fetch),
        process=process(_port(parts)) if loopback else None,
    )


_API: Final = ("/version", "/v1/models", "/openapi.json")


def _reset_path(address: str, timeout_s: float, fetch: Fetch) -> frozenset[str] | None:
    """Whether the reset exists, which answers POST only: a GET changes nothing and is refused with 405."""
    status = fetch(address + RESET_PATH, timeout_s, _MOST_BYTES).status
    known = {405: frozenset({RESET_PATH}), 404: frozenset[str]()}
    return None if status is None else known.get(status)


def _engines(scrape: Scrape, at_s: float) -> tuple[Engine, ...]:
    if scrape.error is not None:
        raise PageRefused(scrape.error)
    if scrape.status != 200 or scrape.body is None:
        raise PageRefused(f"HTTP {scrape.status}")
    samples = read_page(scrape.body, scrape.content_type, at_s=at_s, monotonic_s=at_s)
    text = scrape.body.decode() if isinstance(scrape.body, bytes) else scrape.body
    try:
        series = parse_page(text, _Wanted()).series
    except MalformedLine as error:
        raise PageRefused(f"The page is malformed: {error}.") from error
    alone = len(samples) == 1
    return tuple(_engine(sample, series, alone) for sample in samples)


class _Wanted:
    """Names the checks need beyond those of a sample."""

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name.startswith(_PATCH):
            return not name.endswith(("_bucket", "_created"))
        bare = next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), "")
        return bare == "cache_config_info" or (
            bare.startswith("request_prompt_tokens_") and not bare.endswith("_created")
        )


def _engine(sample: EngineSample, series: Mapping[str, tuple[Series, ...]], alone: bool) -> Engine:
    def own(found: Iterable[Series]) -> list[Series]:
        return [one for one in found if alone or _agrees(one.labels, sample.labels)]

    by_ending: dict[str, list[Series]] = {}
    for name, found in series.items():
        bare = name if name.startswith(_PATCH) else name.split("vllm", 1)[1][1:]
        by_ending.setdefault(bare, []).extend(own(found))
    patch = {name: _sum(found) for name, found in by_ending.items() if name.startswith(_PATCH) and found}
    config = by_ending.get("cache_config_info", [])
    return Engine(
        sample,
        config=dict(config[0].labels) if config else {},
        prompts=_prompts(by_ending),
        patch=patch,
        patch_reasons=_by_label(by_ending.get(_MISS_TOKENS, ()), "reason"),
        patch_pools=_by_label(by_ending.get(_POOL_HITS, ()), "pool"),
    )


def _agrees(labels: Mapping[str, str], engine: Mapping[str, str]) -> bool:
    return all(labels.get(name, value) == value for name, value in engine.items())


def _sum(found: Iterable[Series]) -> float:
    return sum(one.value for one in found if math.isfinite(one.value))


def _by_label(found: Iterable[Series], label: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in found:
        if label in one.labels and math.isfinite(one.value):
            sums[one.labels[label]] = sums.get(one.labels[label], 0.0) + one.value
    return sums


def _prompts(found: Mapping[str, list[Series]]) -> PromptLengths | None:
    counts, sums = found.get("request_prompt_tokens_count"), found.get("request_prompt_tokens_sum")
    if not counts or not sums:
        return None
    at_most: dict[float, float] = {}
    for one in found.get("request_prompt_tokens_bucket", ()):
        try:
            bound = float(one.labels["le"])
        except (KeyError, ValueError):
            continue
        at_most[bound] = at_most.get(bound, 0.0) + one.value
    return PromptLengths(_sum(counts), _sum(sums), at_most)


def _prometheus_names(address: str, timeout_s: float, fetch: Fetch) -> frozenset[str]:
    scrape = fetch(f"{address}/api/v1/label/__name__/values", timeout_s, _MOST_BYTES)
    found = _json(scrape)
    names = found.get("data") if isinstance(found, dict) and found.get("status") == "success" else None
    if not isinstance(names, list):
        reason = scrape.error or f"HTTP {scrape.status} and no list of names"
        raise EnvironmentFailed(f"{address} does not answer like a Prometheus: {reason}; check --prometheus.")
    return frozenset(map(str, names))


def _json(scrape: Scrape) -> Any:
    if scrape.error is not None or scrape.status != 200 or scrape.body is None:
        return None
    try:
        return json.loads(scrape.body)
    except ValueError:
        return None


def _text(found: Any, key: str) -> str | None:
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, str) else None


def _keys(found: Any, key: str) -> frozenset[str] | None:
    value = found.get(key) if isinstance(found, dict) else None
    return frozenset(value) if isinstance(value, dict) else None


def _models(found: Any) -> tuple[frozenset[str], frozenset[str]] | None:
    """Base models and adapters: vLLM gives an adapter the model it belongs to as ``parent``."""
    rows = found.get("data") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "id" in row for row in rows):
        return None
    adapters = {str(row["id"]) for row in rows if row.get("parent")}
    return frozenset(str(row["id"]) for row in rows) - adapters, frozenset(adapters)


def _port(parts: urllib.parse.SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _is_loopback(host: str) -> bool:
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(one.split("%")[0]).is_loopback for one in found)
