"""A publisher's batches that get lost, repeated and replayed, over restarts: what is called known is the truth."""

from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hitcurve.kv_events import BlocksCleared, BlocksRemoved, BlocksStored
from hitcurve_exporter.kv_events.block_table import BlockTable, LiveBlocks
from hitcurve_exporter.kv_events.stream import KvStream


def stored(*hashes: int, medium: str | None = "GPU", group: int | None = 0) -> BlocksStored:
    return BlocksStored(hashes, None, (), 16, None, medium, group, None)


def removed(*hashes: int, medium: str | None = "GPU", group: int | None = 0) -> BlocksRemoved:
    return BlocksRemoved(hashes, medium, group)


def test_copies_are_counted_as_blocks_and_as_hashes() -> None:
    table = BlockTable()
    table.begin_empty()
    for event in (stored(1, 2, 3), stored(1, 2), stored(1), removed(3), removed(2)):
        table.take(event)
    assert table.live == {"device": LiveBlocks(blocks=2, duplicate_blocks=2, duplicate_hashes=1)}
    assert (table.stored, table.removed, table.unmatched_removals) == ({"device": 6}, {"device": 2}, 0)
    table.take(removed(1, 1))
    assert table.live == {"device": LiveBlocks(2, 0, 0)}
    table.take(removed(1, 2))
    assert table.live == {"device": LiveBlocks(0, 0, 0)}


def test_the_hashes_of_two_groups_are_two_blocks() -> None:
    table = BlockTable()
    table.begin_empty()
    table.take(stored(1, group=0))
    table.take(stored(1, group=1))
    assert table.live == {"device": LiveBlocks(2, 0, 0)}


def test_a_removal_of_what_was_never_stored_is_seen() -> None:
    table = BlockTable()
    table.begin_empty()
    table.take(removed(7))
    assert (table.unmatched_removals, table.live) == (1, {"device": LiveBlocks(0, 0, 0)})


def test_tiers_are_apart_and_a_reset_says_nothing_of_the_others() -> None:
    table = BlockTable()
    table.begin_empty()
    for medium in (None, "GPU", "CPU", "CPU_PINNED", "STORAGE", "DISK", "EXTERNAL", "TAPE"):
        table.take(stored(1, medium=medium))
    assert {tier: live.blocks + live.duplicate_blocks for tier, live in table.live.items()} == {
        "device": 2,
        "host": 2,
        "disk": 2,
        "external": 1,
        "other": 1,
    }
    table.take(BlocksCleared())
    assert table.live == {"device": LiveBlocks(0, 0, 0)}
    assert (table.complete, table.clears) == (True, 1)


def test_more_blocks_than_are_kept_are_unknown() -> None:
    table = BlockTable(most_blocks=3)
    table.begin_empty()
    table.take(stored(1, 2, 3))
    assert table.complete
    table.take(stored(4))
    assert (table.complete, table.live, table.stored) == (False, {}, {"device": 4})
    table.take(BlocksCleared())
    table.take(stored(1))
    assert table.live == {"device": LiveBlocks(1, 0, 0)}


def test_what_happened_before_is_known_but_not_counted() -> None:
    stream = KvStream(BlockTable())
    assert stream.need(2) == 0
    history = [(0, batch([["BlockStored", [1, 2], None, [], 16, None]])), (1, batch([["BlockRemoved", [2]]]))]
    stream.take(2, batch([["BlockStored", [3], 1, [], 16, None]]), 5.0, history)
    assert stream.table.live == {"device": LiveBlocks(2, 0, 0)}
    assert (stream.table.stored["device"], stream.table.removed["device"]) == (1, 0)
    assert (stream.counts.batches, stream.counts.gaps, stream.counts.replayed_batches) == (1, 0, 0)


def test_a_message_that_is_no_batch_makes_the_contents_unknown() -> None:
    stream = KvStream(BlockTable())
    stream.take(0, batch([]), 1.0)
    stream.take(1, b"\xc1", 2.0)
    assert (stream.counts.refused_messages, stream.table.complete) == (1, False)


def test_the_next_number_after_a_lost_connection_proves_nothing() -> None:
    """Another process may have come just as far."""
    stream = KvStream(BlockTable())
    stream.take(0, batch([["BlockStored", [1], None, [], 16, None]]), 1.0)
    stream.doubtful = True
    stream.take(1, batch([["BlockStored", [2], None, [], 16, None]]), 2.0)
    assert (stream.table.complete, stream.doubtful, stream.counts.gaps) == (False, False, 0)


def batch(events: list[object], at_s: float = 1.0) -> bytes:
    return msgspec.msgpack.encode([at_s, events])


@dataclass
class Publisher:
    """An engine that publishes: its true blocks, and the batches that a replay still has."""

    started: int
    copies: dict[int, int] = field(default_factory=dict)
    batches: list[bytes] = field(default_factory=list)

    def step(self, events: list[tuple[str, int]]) -> None:
        told: list[object] = []
        for kind, one in events:
            if kind == "store":
                self.copies[one] = self.copies.get(one, 0) + 1
                told.append({"type": "BlockStored", "block_hashes": [one]})
            elif kind == "clear":
                self.copies.clear()
                told.append({"type": "AllBlocksCleared"})
            elif self.copies.get(one):
                self.copies[one] -= 1
                told.append(["BlockRemoved", [one]])
        # No two processes write the same batch, since each carries its time.
        self.batches.append(batch(told, self.started * 1000.0 + len(self.batches)))

    @property
    def live(self) -> LiveBlocks:
        copies = [count for count in self.copies.values() if count]
        return LiveBlocks(len(copies), sum(copies) - len(copies), sum(count > 1 for count in copies))


EVENTS = st.lists(st.tuples(st.sampled_from(["store", "store", "remove", "clear"]), st.integers(1, 6)), max_size=4)


class Following(RuleBasedStateMachine):
    """Everything that can happen between a publisher and who follows it."""

    @initialize(buffer=st.sampled_from([0, 3, 1_000]))
    def begin(self, buffer: int) -> None:
        self.buffer = buffer  # 0: no replay is offered
        self.publisher = Publisher(0)
        self.stream = KvStream(BlockTable())
        self.up_to_date = False
        self.connected = True

    def replay(self, number: int | None) -> list[tuple[int, bytes]] | None:
        if number is None or not self.buffer:
            return None
        whole = list(enumerate(self.publisher.batches))[-self.buffer :]
        return [one for one in whole if one[0] >= number]

    def ask(self, number: int | None) -> list[tuple[int, bytes]] | None:
        needed = self.stream.need(number)
        found = self.replay(needed)
        if found is not None and needed and not self.stream.recognises(found):
            return self.replay(0)
        return found

    @rule(events=EVENTS, arrives=st.booleans())
    def publish(self, events: list[tuple[str, int]], arrives: bool) -> None:
        self.publisher.step(events)
        self.up_to_date = arrives and self.connected
        if self.up_to_date:
            number = len(self.publisher.batches) - 1
            self.stream.take(number, self.publisher.batches[-1], 1.0, self.ask(number))

    @rule()
    def lose_connection(self) -> None:
        self.connected, self.stream.doubtful, self.up_to_date = False, True, False

    @rule(events=st.lists(EVENTS, max_size=4))
    def restart(self, events: list[list[tuple[str, int]]]) -> None:
        """Without a connection; the new process may have come far before there is one again."""
        self.lose_connection()
        self.publisher = Publisher(self.publisher.started + 1)
        for one in events:
            self.publisher.step(one)

    @rule()
    def connect(self) -> None:
        if not self.connected:
            self.connected = True
            found = self.ask(None)
            if found is not None:
                self.stream.catch_up(found, 1.0)
                self.up_to_date = True

    @invariant()
    def what_is_called_known_is_the_truth(self) -> None:
        if self.up_to_date and self.stream.table.complete and not self.stream.doubtful:
            assert self.stream.table.live["device"] == self.publisher.live
        counts = self.stream.counts
        assert counts.replayed_batches <= counts.missed_batches

    @invariant()
    def a_whole_replay_makes_everything_known(self) -> None:
        if self.up_to_date and self.buffer == 1_000:
            assert self.stream.table.complete
            assert not self.stream.doubtful
            assert self.stream.counts.replayed_batches == self.stream.counts.missed_batches


Following.TestCase.settings = settings(max_examples=150, stateful_step_count=25)
TestFollowing = Following.TestCase


@given(st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=6)), max_size=30))
def test_any_messages_leave_a_stream_that_goes_on(messages: list[tuple[int, bytes]]) -> None:
    stream = KvStream(BlockTable())
    for number, payload in messages:
        stream.need(number)
        stream.take(number, payload, 1.0)
    stream.take(0, batch([["BlockStored", [1], None, [], 16, None]], 9.0), 1.0)
    assert stream.table.live == {"device": LiveBlocks(1, 0, 0)}
