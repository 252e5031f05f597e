"""Waiting for something ends in time, however long each look takes."""

from dataclasses import dataclass

import pytest

from hitcurve_chaos.clock import wait_until


@dataclass
class Hours:
    """A clock that only waiting and looking move."""

    now_s: float = 0.0

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(
    ("look_s", "looks", "ended_s"),
    [
        (0.0, 11, 10.0),
        # A hung engine: the look that was begun in time is the last.
        (30.0, 1, 30.0),
        (4.0, 3, 14.0),
    ],
)
def test_looks_that_take_long_do_not_make_it_longer(look_s: float, looks: int, ended_s: float) -> None:
    clock, seen = Hours(), []

    def never() -> bool:
        clock.now_s += look_s
        seen.append(clock.now_s)
        return False

    assert not wait_until(never, 10.0, clock=clock, every_s=1.0)
    assert (len(seen), clock.now_s) == (looks, ended_s)


def test_what_is_so_already_is_not_waited_for() -> None:
    clock = Hours()
    assert wait_until(lambda: True, 0.0, clock=clock)
    assert clock.now_s == 0.0
