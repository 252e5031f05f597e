"""The classifier on labelled curves: a bounded part of what ``tests/benchmarks/curve_states.py`` measures.

The bounds lie a little below the figures of these very curves, which are always the same ones.
"""

import pytest

from hitcurve.reading import STATES
from labelled_curves.corpus import corpus
from labelled_curves.engine_days import engine_days
from labelled_curves.scoring import Score, false_alarms
from labelled_curves.watch import watch

SEED = 1000
CURVES = 120
DAYS = 5


@pytest.fixture(scope="module")
def score() -> Score:
    found = Score()
    for curve in corpus(CURVES, SEED):
        found.add(watch(curve))
    return found


def test_windows_read_the_right_state(score: Score) -> None:
    assert score.windows > 25_000
    assert score.share_right >= 0.994
    assert score.macro >= 0.985


def test_every_state_is_in_the_corpus_and_named(score: Score) -> None:
    recalls = score.recalls()
    assert set(recalls) == set(STATES)
    assert min(recalls.values()) >= 0.90


@pytest.mark.parametrize("kind", ["reset, told", "restart", "restart, overtaken"])
def test_what_the_page_tells_is_named_within_two_scrapes(score: Score, kind: str) -> None:
    delay = score.delays[kind]
    assert delay.owed > 0
    assert delay.two_of_all == delay.owed


@pytest.mark.parametrize("kind", ["collapse", "reset, untold"])
def test_what_two_scrapes_can_prove_is_named_within_two_scrapes(score: Score, kind: str) -> None:
    delay = score.delays[kind]
    assert delay.provable_at_once > 0
    assert delay.within_two == delay.provable_at_once


def test_incidents_have_their_cause(score: Score) -> None:
    assert score.causes_right >= 0.95


def test_healthy_days_raise_no_alarm() -> None:
    alarms = false_alarms(watch(day) for day in engine_days(DAYS, SEED))
    assert sum(one.days for one in alarms.values()) == pytest.approx(DAYS)
    assert sum(one.alarms for one in alarms.values()) == 0


def test_a_curve_of_the_corpus_is_always_the_same() -> None:
    first, again = (list(corpus(12, 3)) for _ in range(2))
    assert [curve.scrapes for curve in first] == [curve.scrapes for curve in again]
    assert [curve.truth for curve in first] == [curve.truth for curve in again]


def test_a_collapse_that_evictions_speak_for_is_not_named_a_step_down_first() -> None:
    """Once degraded, a curve is held against its own lower level, and a collapse would never be named."""
    *_, curve = corpus(4, 5000)
    assert curve.kind == "collapse"
    watched = watch(curve)
    sure = [(label.state, state.state) for label, state in watched.pairs() if label.sure]
    assert ("collapsed", "collapsed") in sure
    assert all(said == "collapsed" for right, said in sure if right == "collapsed")
