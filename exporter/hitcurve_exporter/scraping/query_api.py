"""Pages out of a query API: which samples Prometheus took of an engine, scrape by scrape.

A range selector gives the samples as they were scraped, with their own times, so that a page can be put together
again and read like any other. API: prometheus.io/docs/prometheus/latest/querying/api.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hitcurve.readers.page import wanted_names
from hitcurve_exporter.page.lines import label_text

__all__ = ["Origin", "QueryFailed", "counters_query", "pages_of", "present_of", "up_query"]

_OWN_LABELS = ("__name__", "job", "instance")


class QueryFailed(Exception):
    """The server answered something else than a result; the message says what, in a few words."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A target of Prometheus. Either may be empty."""

    job: str
    instance: str

    @property
    def name(self) -> str:
        """What the target is called."""
        return "/".join(filter(None, (self.job, self.instance))) or "all"


def counters_query(matchers: str, range_s: float) -> str:
    """PromQL for every sample of the last ``range_s`` seconds that a reader may want."""
    names = "|".join(sorted(wanted_names()))
    selector = ", ".join(filter(None, (f'__name__=~"{names}"', matchers)))
    return f"{{{selector}}}[{max(1, round(range_s))}s]"


def up_query(matchers: str) -> str:
    """PromQL for the targets that exist now; Prometheus forgets one that left at once."""
    return f"up{{{matchers}}}"


def pages_of(answer: bytes) -> dict[Origin, dict[float, str]]:
    """By target and time of its scrape, the text of what was scraped then. QueryFailed for any other answer."""
    pages: dict[Origin, dict[float, list[str]]] = {}
    for series in _results(answer, "matrix"):
        labels = series["metric"]
        own = label_text((name, value) for name, value in labels.items() if name not in _OWN_LABELS)
        head = f"{labels.get('__name__', '')}{{{own}}}"
        of_target = pages.setdefault(_origin(labels), {})
        for at_s, value in series.get("values", ()):
            of_target.setdefault(float(at_s), []).append(f"{head} {value}\n")
    return {
        origin: {at_s: "".join(lines) for at_s, lines in sorted(found.items())} for origin, found in pages.items()
    }


def present_of(answer: bytes) -> dict[Origin, bool]:
    """The targets that exist, and whether their last scrape was good."""
    return {_origin(one["metric"]): float(one["value"][1]) == 1 for one in _results(answer, "vector")}


def _origin(labels: Mapping[str, str]) -> Origin:
    return Origin(labels.get("job", ""), labels.get("instance", ""))


def _results(answer: bytes, kind: str) -> Iterable[Any]:
    try:
        document = json.loads(answer)
        if document["status"] != "success":
            raise QueryFailed(f"the server refused the query ({str(document.get('error', 'no reason'))[:200]})")
        if document["data"]["resultType"] != kind:
            raise QueryFailed(f"the server answered a {document['data']['resultType']} instead of a {kind}")
        return list(document["data"]["result"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise QueryFailed("the answer is not that of a query API") from error
