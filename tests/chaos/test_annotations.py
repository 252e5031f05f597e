"""Grafana annotations of a run, posted to a stand-in."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.calls import Answer, NoAnswer
from hitcurve_chaos.grafana import annotate
from hitcurve_chaos.verdict import Verdict

BAD = Verdict("pause", "Pause", "bad", "e", "It failed.", fault_from_s=10.0, fault_to_s=12.5)
NOT_INJECTED = Verdict("one", "One", "invalid", "e", "Nothing was injected.")


class Grafana:
    """Takes annotations, or answers otherwise."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.calls: list[tuple[str, Any, Any]] = []

    def send(
        self,
        method: str,
        url: str,
        *,
        json_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> Answer:
        if self.status == 0:
            raise NoAnswer(f"{method} {url}: connection refused")
        self.calls.append((url, json.loads(json.dumps(json_body)), dict(headers or {})))
        return Answer(self.status, '{"message":"no"}')


def test_each_injected_fault_is_marked_from_its_begin_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", "secret")
    grafana = Grafana()
    assert annotate("http://g:3000/", [BAD, NOT_INJECTED], grafana) == 1
    assert grafana.calls == [
        (
            "http://g:3000/api/annotations",
            {
                "time": 10_000,
                "timeEnd": 12_500,
                "tags": ["hitcurve-chaos", "pause", "verdict:bad"],
                "text": "Pause: bad. It failed.",
            },
            {"Authorization": "Bearer secret"},
        )
    ]


@pytest.mark.parametrize(
    ("status", "says"), [(0, "Grafana does not answer"), (403, "put a key that may write into GRAFANA_TOKEN")]
)
def test_a_grafana_that_takes_nothing_is_told_in_one_sentence(
    status: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN", raising=False)
    with pytest.raises(EnvironmentFailed, match=says):
        annotate("http://g:3000", [BAD], Grafana(status))
