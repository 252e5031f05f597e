"""Where the counters come from: a live page, recorded pages, the recordings of an exporter or of a run."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hitcurve.address import base_address
from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve.readers import PageRefused, read_page
from hitcurve.reading import reading_from_json
from hitcurve.replay.manifest import load_manifest, scrapes
from hitcurve.sample import EngineSample
from hitcurve.scrape import fetch
from hitcurve_simulator.reconcile.measured import Measured, measured_by_pages, measured_by_readings
from hitcurve_simulator.reconcile.reconcile import Window

__all__ = ["Counted", "engine_version", "live_page", "metrics_url", "page_file", "quiet_page", "recorded"]

_TIMEOUT_S = 10.0
_LARGEST_PAGE_BYTES = 32 * 1024 * 1024
_QUIET_WITHIN_S = 30.0
_NAP_S = 0.1

Page = tuple[EngineSample, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """What the engines counted, and when."""

    measured: list[Measured]
    window: Window


def metrics_url(text: str) -> str:
    """The address of the page: ``/metrics`` is added where the URL has no path. Raises UsageError."""
    try:
        base = base_address(text)
    except UsageError as error:
        raise UsageError(f"--metrics: {error}") from None
    bare = urlsplit(base).path == "" or text.rstrip("/").endswith("/metrics")
    return f"{base}/metrics" if bare else base


def live_page(url: str) -> tuple[Page, float]:
    """The engines on a page and when it was read (Unix seconds). Raises EnvironmentFailed, UsageError."""
    scrape = fetch(url, _TIMEOUT_S, _LARGEST_PAGE_BYTES)
    if scrape.error is not None or scrape.body is None or scrape.status != 200:
        why = scrape.error or f"HTTP {scrape.status}"
        raise EnvironmentFailed(f"{url} cannot be read ({why}); start the engine or correct --metrics.")
    return _read(url, scrape.body, scrape.content_type, scrape.at_s), scrape.at_s


def quiet_page(url: str, nap: Callable[[float], None] = time.sleep) -> tuple[Page, float]:
    """A page on which nothing runs or waits any more. Raises EnvironmentFailed where that does not come."""
    for _ in range(int(_QUIET_WITHIN_S / _NAP_S)):
        page, at_s = live_page(url)
        if not any(sample.running or sample.waiting for sample in page):
            return page, at_s
        nap(_NAP_S)
    raise EnvironmentFailed(
        f"the engine at {url} still has requests {_QUIET_WITHIN_S:g} s later; wait until it is idle."
    )


def page_file(path: Path) -> Page:
    """The engines on a recorded page. Raises UsageError."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; give a saved /metrics page.") from None
    return _read(str(path), body, None, 0.0)


def recorded(path: Path) -> Counted:
    """First against last of a folder with ``scrapes.json`` or ``readings.jsonl`` (or such a file). UsageError."""
    if path.is_dir() and not (path / "scrapes.json").exists():
        path = path / "readings.jsonl"
    if path.suffix == ".jsonl":
        return _run_folder(path)
    pages: list[Page] = []
    times: list[float] = []
    for scrape in scrapes(load_manifest(path)):
        if scrape.body is None or scrape.status != 200:
            continue
        try:
            pages.append(_read(scrape.target, scrape.body, scrape.content_type, scrape.at_s))
        except UsageError:
            continue
        times.append(scrape.at_s)
    if len(pages) < 2:
        raise UsageError(f"{path} holds {len(pages)} readable pages; at least a first and a last one are needed.")
    return Counted(measured_by_pages(pages), Window(times[0], times[-1]))


def engine_version(url: str) -> str | None:
    """What vLLM says of its version at ``/version``; None where it does not."""
    parts = urlsplit(url)
    scrape = fetch(f"{parts.scheme}://{parts.netloc}/version", _TIMEOUT_S, _LARGEST_PAGE_BYTES)
    try:
        version = json.loads(scrape.body)["version"] if scrape.status == 200 and scrape.body else None
    except (ValueError, TypeError, LookupError):
        return None
    return str(version).partition("+")[0] if version else None


def _run_folder(path: Path) -> Counted:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        readings = [reading_from_json(json.loads(line)) for line in lines if line.strip()]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; give one with it or scrapes.json.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} holds no readings of hitcurve ({error}); give a run folder.") from None
    readings = [reading for reading in readings if reading.up]
    if len(readings) < 2:
        raise UsageError(f"{path} holds {len(readings)} good readings; at least a first and a last are needed.")
    window = Window(min(one.at_s for one in readings), max(one.at_s for one in readings))
    return Counted(measured_by_readings(readings), window)


def _read(name: str, body: bytes | str, content_type: str | None, at_s: float) -> Page:
    try:
        return read_page(body, content_type, at_s=at_s, monotonic_s=at_s)
    except PageRefused as refusal:
        raise UsageError(f"{name}: {refusal.reason}") from None
