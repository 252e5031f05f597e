"""What the ledger does with odd events, and how it keeps its memory bounded."""

import random
import subprocess
import sys
from typing import Any

import pytest

from hitcurve_engine.ledger import ANOMALIES, MISS_REASONS, Ledger
from hitcurve_engine.ledger.gone_keys import GoneKeys


def schedule(kept: Any, query: int, hit: int, keys: list[Any], admitted: int | None = None) -> Any:
    kept.ledger.lookup("r", 1.0, query, hit, keys)
    kept.ledger.scheduled("r", 1.0, admitted)
    kept.ledger.finished("r", 2.0)
    return kept.outcomes[-1]


def test_odd_counts_are_flagged_and_never_negative(kept: Any) -> None:
    ledger = kept.start()
    ledger.stored(0.0, ["a", "b"])
    outcome = schedule(kept, 20, 32, ["a"])
    assert (outcome.anomalies, outcome.hit_tokens, sum(outcome.miss_tokens.values())) == (
        ("hits_exceed_query",),
        20,
        0,
    )
    outcome = schedule(kept, 33, 16, ["a", "x"], admitted=32)
    assert (outcome.anomalies, outcome.hit_tokens) == (("admitted_exceeds_hits",), 16)
    outcome = schedule(kept, 33, 16, ["a", "x"], admitted=-1)
    assert (outcome.anomalies, outcome.hit_tokens, outcome.miss_tokens["tail"]) == ((), 0, 17)
    ledger.finished("none", 3.0, prompt_tokens=10, cached_tokens=12)
    assert kept.outcomes[-1].anomalies == ("cached_exceeds_prompt",)
    ledger.lookup("ext", 4.0, 40, 32, ["a", "b"])
    ledger.external_lookup("ext", 4.0, 8, 16)
    ledger.scheduled("ext", 4.0)
    ledger.finished("ext", 5.0)
    outcome = kept.outcomes[-1]
    assert (outcome.anomalies, outcome.external_hit_tokens, outcome.computed_tokens) == (
        ("hits_exceed_query",),
        8,
        0,
    )
    assert ledger.totals.anomalies == 4
    assert {name for outcome in kept.outcomes for name in outcome.anomalies} <= ANOMALIES.keys()


def test_a_hit_on_a_block_never_stored_is_flagged_and_believed(kept: Any) -> None:
    assert schedule(kept, 33, 32, ["a", "b"]).anomalies == ("hit_of_unknown_block",)
    assert kept.ledger.cached_keys == 2
    assert schedule(kept, 33, 32, ["a", "b"]).anomalies == ()


def test_a_cached_block_passed_over_is_flagged_unless_the_engine_withholds_it(kept: Any) -> None:
    for withheld_blocks, anomalies in ((0, ("missed_cached_block",)), (1, ()), (None, ())):
        kept.start(withheld_blocks=withheld_blocks).stored(0.0, ["a", "b"])
        outcome = schedule(kept, 33, 16, ["a", "b"])
        assert (outcome.miss_tokens["tail"], outcome.anomalies) == (17, anomalies)


def test_an_eviction_of_a_block_never_stored_is_counted_apart(kept: Any) -> None:
    kept.ledger.evicted(1.0, ["a"])
    assert (kept.ledger.totals.evicted_blocks, kept.ledger.totals.unknown_evictions, kept.evictions) == (1, 1, [])


@pytest.mark.parametrize(
    ("pool_blocks", "most"),
    [pytest.param(10, 20, id="pool known"), pytest.param(None, 60, id="pool unknown: the most ever cached")],
)
def test_ghosts_are_bounded_and_the_dropped_ones_counted(kept: Any, pool_blocks: int | None, most: int) -> None:
    ledger = kept.start(pool_blocks=pool_blocks, ghosts_per_block=2.0)
    for start in range(0, 300, 30):
        keys = list(range(start, start + 30))
        ledger.stored(0.0, keys)
        ledger.evicted(1.0, keys)
    assert ledger.ghost_keys == most
    assert ledger.totals.ghosts_dropped == 300 - most
    assert schedule(kept, 17, 0, [299]).miss_tokens["capacity"] == 16
    assert schedule(kept, 17, 0, [0]).miss_tokens["compulsory"] == 16


def test_a_reset_leaves_no_more_ghosts_than_the_bound(kept: Any) -> None:
    ledger = kept.start(pool_blocks=4, ghosts_per_block=0.5)
    ledger.stored(0.0, ["a", "b", "c", "d"])
    ledger.reset(1.0)
    assert (ledger.cached_keys, ledger.ghost_keys, ledger.totals.ghosts_dropped) == (0, 2, 2)
    assert schedule(kept, 17, 0, ["d"]).miss_tokens["reset"] == 16
    assert schedule(kept, 17, 0, ["a"]).miss_tokens["compulsory"] == 16


def test_what_went_long_ago_is_remembered_without_the_time(kept: Any) -> None:
    ledger = kept.start(pool_blocks=4, ghosts_per_block=0.0, gone_keys=64)
    ledger.stored(0.0, ["a", "b"])
    ledger.evicted(1.0, ["a"])
    ledger.reset(2.0)
    assert (ledger.ghost_keys, ledger.totals.ghosts_dropped) == (0, 0)
    assert schedule(kept, 33, 0, ["a", "b"]).miss_tokens == {
        **dict.fromkeys(MISS_REASONS, 0),
        "capacity": 16,
        "reset": 16,
        "tail": 1,
    }
    (regret,) = kept.regrets
    assert (regret.tokens, regret.after_s) == (16, None)
    ledger.stored(3.0, ["a"])
    ledger.reset(4.0)
    assert schedule(kept, 17, 0, ["a"]).miss_tokens["reset"] == 16


@pytest.mark.parametrize(("keys", "share"), [(8_192, 0.999), (16_384, 0.99)])
def test_as_many_gone_keys_are_remembered_as_is_said(keys: int, share: float) -> None:
    """A quarter and half of the slots. Whole numbers as keys: their hashes are the same in every process."""
    chance = random.Random(keys)
    drawn = [chance.randrange(1 << 60) for _ in range(2 * keys)]
    went, others = drawn[:keys], drawn[keys:]
    memory = GoneKeys(32_768)
    for number, key in enumerate(went):
        memory.add(key, by_reset=number % 3 == 0)
    found = [memory.by_reset(key) for key in went]
    remembered = [number for number, by_reset in enumerate(found) if by_reset is not None]
    assert len(remembered) == keys - memory.forgotten
    assert len(remembered) >= share * keys
    assert all(found[number] is (number % 3 == 0) for number in remembered)
    assert {memory.by_reset(key) for key in others} == {None}
    memory.add(went[-1], by_reset=False)
    assert memory.by_reset(went[-1]) is False
    assert sum(memory.by_reset(key) is not None for key in went) == len(remembered)


def test_requests_that_never_end_are_bounded(kept: Any) -> None:
    ledger = kept.start(most_open_requests=3)
    for number in range(10):
        ledger.lookup(f"r{number}", 0.0, 17, 0, ["a"])
    assert (ledger.open_requests, ledger.totals.requests_dropped) == (3, 7)
    ledger.scheduled("r0", 1.0)
    assert ledger.totals.requests == 0
    ledger.scheduled("r9", 1.0)
    assert ledger.totals.requests == 1


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size is 0"):
        Ledger(0)
    ledger = Ledger(16)
    with pytest.raises(ValueError, match="33 query tokens fill 2 blocks of 16"):
        ledger.lookup("r1", 0.0, 33, 0, ["a"])
    with pytest.raises(ValueError, match="33 query tokens fill 2 blocks of 16"):
        ledger.lookup("r1", 0.0, 33, 0, ["a", "b"], ["x"])
    with pytest.raises(ValueError, match="lookup of r1: 33 query and -1 hit tokens"):
        ledger.lookup("r1", 0.0, 33, -1)
    with pytest.raises(ValueError, match="external lookup of r1: -1 query, 0 hit tokens"):
        ledger.external_lookup("r1", 0.0, -1, 0)


def test_it_imports_nothing_from_outside_the_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); import hitcurve_engine.ledger; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - sys.stdlib_module_names))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "['hitcurve_engine']"
