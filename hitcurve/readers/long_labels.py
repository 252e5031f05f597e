"""Label values of bounded length: they become labels of our own page, names of engines, keys in memory."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hitcurve.readers.exposition import Page, Series

__all__ = ["LONGEST_LABEL", "short_label", "with_short_labels"]

LONGEST_LABEL: Final = 200
"""Characters; names of models and paths stay whole."""
_LISTS: Final = frozenset({"running_lora_adapters", "waiting_lora_adapters"})
"""Read name by name, and never an engine's identity."""


def with_short_labels(page: Page) -> tuple[Page, bool]:
    """The page with longer values cut, and whether any was. Each ends in a digest, so different ones stay so."""
    if not any(map(_is_long, _all_series(page))):
        return page, False
    series = {name: tuple(map(_shortened, found)) for name, found in page.series.items()}
    return replace(page, series=series), True


def _all_series(page: Page) -> list[Series]:
    return [series for found in page.series.values() for series in found]


def _is_long(series: Series) -> bool:
    labels = series.labels
    if max(map(len, labels.values()), default=0) <= LONGEST_LABEL:
        return False
    return any(len(value) > LONGEST_LABEL and name not in _LISTS for name, value in labels.items())


def _shortened(series: Series) -> Series:
    if not _is_long(series):
        return series
    labels: Mapping[str, str] = {
        name: value if name in _LISTS else short_label(value) for name, value in series.labels.items()
    }
    return replace(series, labels=labels)


def short_label(value: str) -> str:
    """The value, or its beginning and a digest where it is longer than ``LONGEST_LABEL``."""
    if len(value) <= LONGEST_LABEL:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{value[: LONGEST_LABEL - 13]}~{digest}"
