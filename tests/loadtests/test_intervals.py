"""Intervals of paired measurements, against values worked out elsewhere, and against known truths."""

import math
import random
import statistics

import pytest

from hitcurve_loadtests.intervals import bootstrap, ratio_of_pairs


def test_a_ratio_of_pairs_is_students_t_of_the_logarithms() -> None:
    # By R 4.2: exp(t.test(log(c(2, 1.1, 1.9)/c(1, 1, 1)))$conf.int), geometric mean 4.18^(1/3).
    seen = ratio_of_pairs([(1, 2), (1, 1.1), (1, 1.9)])
    logs = [math.log(2), math.log(1.1), math.log(1.9)]
    half = 4.303 * statistics.stdev(logs) / math.sqrt(3)
    assert seen.value == pytest.approx(4.18 ** (1 / 3))
    assert (seen.low, seen.high) == (
        pytest.approx(4.18 ** (1 / 3) / math.exp(half)),
        pytest.approx(4.18 ** (1 / 3) * math.exp(half)),
    )


def test_too_little_gives_no_interval() -> None:
    assert ratio_of_pairs([]).value is None
    alone = ratio_of_pairs([(2.0, 1.0), (0.0, 1.0)])
    assert (alone.value, alone.low, alone.high) == (0.5, None, None)
    assert bootstrap([1.0], sum).low is None


@pytest.mark.parametrize("kind", ["t", "bootstrap"])
def test_the_truth_lies_within_95_of_100_intervals_or_nearly(kind: str) -> None:
    source = random.Random(5)
    inside = 0
    for _ in range(60):
        if kind == "t":
            pairs = [(1.0, 1.2 * math.exp(source.gauss(0, 0.1))) for _ in range(10)]
            seen = ratio_of_pairs(pairs)
        else:
            blocks = [(1.0, source.gauss(1.2, 0.1)) for _ in range(40)]
            seen = bootstrap(blocks, lambda found: sum(b for _, b in found) / sum(a for a, _ in found))
        assert seen.low is not None
        assert seen.high is not None
        inside += seen.low <= 1.2 <= seen.high
    assert 50 <= inside <= 60
