"""Asks a real Prometheus every query: each must be understood, and none may be empty without a reason."""

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hitcurve.errors import EnvironmentFailed
from hitcurve_dashboards.grafana.records import Dashboard
from hitcurve_dashboards.rules.records import Recording, RuleGroup

__all__ = ["Answer", "Asked", "HttpPrometheus", "Prometheus", "asked_by_dashboards", "asked_by_rules", "execute"]

_TIMEOUT_S = 30.0
_MOST_BYTES = 1 << 20
_LABEL_VALUES = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, where it stands, and why its answer may be empty ("" where it may not)."""

    place: str
    expr: str
    may_be_empty: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """How many series a query was answered with, or why it was not."""

    asked: Asked
    series: int = 0
    error: str = ""

    @property
    def problem(self) -> str:
        """What is wrong with it; "" where nothing is."""
        if self.error:
            return f"{self.asked.place}: Prometheus refuses the query: {self.error}"
        if not self.series and not self.asked.may_be_empty:
            return f"{self.asked.place}: no series; the panel would be empty"
        return ""


class Prometheus(Protocol):
    """What answers instant queries."""

    def query(self, expr: str) -> Sequence[Any]:
        """The series of the answer; ValueError with Prometheus' words where the query is bad."""
        ...


@dataclass(frozen=True, slots=True)
class HttpPrometheus:
    """A Prometheus, Thanos or Mimir by its address."""

    url: str

    def query(self, expr: str) -> Sequence[Any]:
        """The series of the answer; EnvironmentFailed where nobody answers, or somebody else."""
        body = urllib.parse.urlencode({"query": expr}).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query", data=body, timeout=_TIMEOUT_S) as answer:
                data = json.load(answer)["data"]
            result: Sequence[Any] = data["result"] if data["resultType"] != "scalar" else [data["result"]]
        except urllib.error.HTTPError as error:
            with error:
                words = _words(error.read(_MOST_BYTES))
            if words is None:
                raise self._nobody(f"HTTP {error.code}") from error
            raise ValueError(words) from error
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise self._nobody(str(getattr(reason, "strerror", None) or reason).lower()) from error
        except (ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            raise self._nobody("the answer is none of its API") from error
        return result

    def _nobody(self, reason: str) -> EnvironmentFailed:
        return EnvironmentFailed(f"no Prometheus answers at {self.url}: {reason}; check the address.")


def _words(body: bytes) -> str | None:
    """What Prometheus says of a query that it refuses; ``None`` where it is not Prometheus who says it."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return None


def asked_by_dashboards(dashboards: Sequence[Dashboard], rate_interval: str) -> Iterator[Asked]:
    """Every query of every panel, variable and annotation, with every variable at "All"."""
    for dashboard in dashboards:
        values = {variable.name: variable.all_value for variable in dashboard.variables}
        values |= {"__rate_interval": rate_interval}

        def filled(expr: str, values: dict[str, str] = values) -> str:
            return _LABEL_VALUES.sub(lambda found: values[found[1]], expr)

        for variable in dashboard.variables:
            series = filled(variable.series)
            place = f"{dashboard.uid}, variable {variable.name}"
            yield Asked(place, f"count by ({variable.label}) ({series})", variable.may_be_empty)
        for annotation in dashboard.annotations:
            if annotation.expr:
                place = f"{dashboard.uid}, annotation {annotation.name}"
                yield Asked(place, filled(annotation.expr), annotation.may_be_empty)
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    place = f"{dashboard.uid}, panel {panel.title}"
                    yield Asked(place, filled(query.expr), query.may_be_empty)


def asked_by_rules(groups: Sequence[RuleGroup]) -> Iterator[Asked]:
    """Every expression of every rule; an alert is empty while all is well."""
    for group in groups:
        for rule in group.rules:
            if isinstance(rule, Recording):
                yield Asked(f"rule {rule.record}", rule.expr, rule.may_be_empty)
            else:
                yield Asked(f"alert {rule.name}", rule.expr, "nothing is wrong")


def execute(prometheus: Prometheus, queries: Iterator[Asked]) -> Iterator[Answer]:
    """Ask them one after the other."""
    for asked in queries:
        try:
            yield Answer(asked, len(prometheus.query(asked.expr)))
        except ValueError as error:
            yield Answer(asked, error=str(error))
