"""The evidence of a state, written for people: shares, counts, clock times and seconds as what they are."""

import time

import pytest

from hitcurve.reading import CurveState, Reading
from hitcurve.watch.detail import detail
from hitcurve.watch.replica import Replica

EVIDENCE = {
    "rate": 0.8889,
    "uncertainty": 0.05105,
    "baseline": None,
    "tokens": 27648.0,
    "requests": 48.0,
    "onset_s": 1_796_048_938.9,
    "threshold": 17.5426,
    "turns": 2.0,
    "silence_s": 0.4,
    "source": "events",
}


def test_evidence_is_written_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    state = CurveState("steady", None, 1_796_048_940.0, EVIDENCE)
    lines = detail(Replica("a", Reading("a", "0", 0.0, up=True, state=state)), 80).plain.splitlines()
    at = lines.index("since                     14:29:00")
    assert lines[at + 1 : at + 11] == [
        "  rate                    88.9%",
        "  uncertainty             5.1%",
        "  baseline                –",
        "  tokens                  28k",
        "  requests                48",
        "  onset                   14:28:58",
        "  threshold               17.54",
        "  turns                   2",
        "  silence                 400ms",
        "  source                  events",
    ]
    monkeypatch.undo()
    time.tzset()
