"""Hits on blocks of an adapter's earlier weights: in the ledger, and how a reload is noticed."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from hitcurve_engine.ledger import Ledger, Outcome
from hitcurve_engine.recording.adapter_loads import AdapterLoads

SIZE = 16


def serve(ledger: Ledger, name: str, keys: list[str], hit_blocks: int, load: int, adapter: str = "sql") -> None:
    """One request that finds so many of its blocks and stores the others."""
    tokens = len(keys) * SIZE + 1
    ledger.lookup(name, 1.0, tokens, hit_blocks * SIZE, keys, adapter=adapter, adapter_load=load)
    ledger.stored(1.0, keys[hit_blocks:], name, hit_blocks)
    ledger.scheduled(name, 1.0)
    ledger.finished(name, 2.0)


def test_what_the_first_weights_computed_is_stale_after_a_reload(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "before", ["a", "b"], 0, load=0)
    serve(ledger, "same weights", ["a", "b"], 2, load=0)
    serve(ledger, "other weights", ["a", "b"], 2, load=1)
    assert [outcome.stale_hit_tokens for outcome in kept.outcomes] == [0, 0, 32]
    assert (ledger.totals.stale_hit_tokens, ledger.totals.hit_tokens) == (32, 64)


def test_what_is_computed_behind_a_stale_prefix_is_stale_too(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "before", ["a"], 0, load=0)
    serve(ledger, "first after", ["a", "b"], 1, load=1)
    serve(ledger, "second after", ["a", "b", "c"], 2, load=1)
    assert [outcome.stale_hit_tokens for outcome in kept.outcomes] == [0, 16, 32]


def test_fresh_blocks_of_the_new_weights_are_not_stale(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "before", ["a"], 0, load=0)
    ledger.evicted(3.0, ["a"])
    serve(ledger, "after", ["a"], 0, load=1)
    serve(ledger, "again", ["a"], 1, load=1)
    assert [outcome.stale_hit_tokens for outcome in kept.outcomes] == [0, 0, 0]


def test_only_what_was_admitted_counts_and_a_recompute_counts_nowhere(kept: Any) -> None:
    ledger = kept.ledger
    serve(ledger, "before", ["a", "b"], 0, load=0)
    ledger.lookup("r", 4.0, 33, 32, ["a", "b"], adapter="sql", adapter_load=1)
    ledger.scheduled("r", 4.0, 16)
    ledger.preempted("r", 5.0)
    ledger.lookup("r", 6.0, 33, 32, ["a", "b"], adapter="sql", adapter_load=1)
    ledger.scheduled("r", 6.0)
    ledger.finished("r", 7.0)
    assert kept.outcomes[-1].stale_hit_tokens == ledger.totals.stale_hit_tokens == 16


def test_a_request_that_was_not_looked_up_has_no_value(kept: Any) -> None:
    kept.ledger.finished("r", 1.0)
    assert kept.one().stale_hit_tokens is None


class ReloadMachine(RuleBasedStateMachine):
    """The ledger against a cache in which every block remembers which weights are in it, prefix included."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Outcome] = []
        self.ledger = Ledger(SIZE, pool_blocks=1000, on_outcome=self.outcomes.append)
        self.load = 0
        self.weights: dict[str, set[int]] = {}
        self.served = 0

    @rule()
    def reload(self) -> None:
        self.load += 1

    @rule(prompt=st.text("xy", min_size=1, max_size=4))
    def ask(self, prompt: str) -> None:
        keys = [prompt[: end + 1] for end in range(len(prompt))]
        hit = next((place for place, key in enumerate(keys) if key not in self.weights), len(keys))
        stale = sum(bool(self.weights[key] - {self.load}) for key in keys[:hit])
        self.served += 1
        serve(self.ledger, f"r{self.served}", keys, hit, self.load)
        assert self.outcomes[-1].stale_hit_tokens == stale * SIZE
        inside = self.weights[keys[hit - 1]] if hit else set()
        self.weights.update((key, inside | {self.load}) for key in keys[hit:])

    @rule(prompt=st.text("xy", min_size=1, max_size=4))
    def evict(self, prompt: str) -> None:
        gone = [key for key in self.weights if key.startswith(prompt)]
        self.ledger.evicted(1.0, gone)
        for key in gone:
            del self.weights[key]


def test_stale_tokens_are_those_whose_blocks_hold_any_earlier_weights() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        ReloadMachine, settings=settings(max_examples=150, stateful_step_count=30, deadline=None)
    )


def lora(number: int = 1, path: str = "/adapters/sql", name: str = "sql") -> tuple[str, int, str]:
    return name, number, path


def adapter_folder(place: Path, weights: bytes) -> str:
    place.mkdir(exist_ok=True)
    (place / "adapter_model.safetensors").write_bytes(weights)
    return str(place)


def test_unloading_and_loading_the_same_files_changes_nothing(tmp_path: Path) -> None:
    path = adapter_folder(tmp_path / "sql", b"old")
    loads = AdapterLoads()
    assert [loads.of(lora(1, path)), loads.of(lora(2, path)), loads.of(lora(2, path))] == [0, 0, 0]


def test_other_files_under_the_same_path_are_other_weights(tmp_path: Path) -> None:
    path = adapter_folder(tmp_path / "sql", b"old")
    loads = AdapterLoads()
    assert loads.of(lora(1, path)) == 0
    adapter_folder(tmp_path / "sql", b"newer")
    assert loads.of(lora(1, path)) == 0, "nobody has loaded it yet"
    assert loads.of(lora(2, path)) == 1


def test_a_reload_in_place_keeps_number_and_path_and_is_noticed_by_its_call(tmp_path: Path) -> None:
    path = adapter_folder(tmp_path / "sql", b"old")
    loads = AdapterLoads()
    loads.loaded(lora(1, path))
    os.utime(Path(path, "adapter_model.safetensors"), ns=(1, 1))
    assert (loads.loaded(lora(1, path)), loads.of(lora(1, path))) == (1, 1)
    assert loads.loaded(lora(1, path)) == 1, "a second API server loads the same files"


@pytest.mark.parametrize(("path", "load"), [("hub/sql", 0), ("hub/sql-v2", 1)])
def test_where_files_cannot_be_read_the_path_tells(path: str, load: int) -> None:
    loads = AdapterLoads()
    assert loads.of(lora(1, "hub/sql")) == 0
    assert loads.of(lora(2, path)) == load


def test_equal_files_under_another_path_are_the_same_weights() -> None:
    loads = AdapterLoads(lambda path: (("adapter_model.safetensors", 3, 7),))
    assert [loads.of(lora(1, "/a")), loads.of(lora(2, "/b"))] == [0, 0]


def test_adapters_of_other_names_do_not_age() -> None:
    loads = AdapterLoads(lambda path: None)
    loads.of(lora(1, "/a"))
    loads.of(lora(2, "/b"))
    assert loads.of(lora(3, "/other", name="chat")) == 0
