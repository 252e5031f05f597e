"""Batches of KV events as 31 releases of vLLM write them, and payloads that are none."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.kv_events import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvBatch,
    MalformedBatch,
    batch_of,
    decode_batch,
)

# One batch of each release, encoded by the release's own classes: a first block without parent, a chain of two
# behind it with an adapter, the removal of its second block, a reset.
RECORDED: dict[str, str] = json.loads((Path(__file__).parent / "vllm_kv_event_batches.json").read_text())


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("version", RECORDED)
def test_a_batch_of_every_release_is_read(version: str) -> None:
    since = release(version)
    in_bytes, tiers, named = since >= (0, 10, 2), since >= (0, 10, 2), since >= (0, 14)
    medium = "GPU" if tiers else None
    group = 0 if since >= (0, 20) else None
    keys = (["fr"], ["fr"]) if since >= (0, 17) else None

    def hashed(number: int) -> int | bytes:
        return bytes([number]) * 32 if in_bytes else -number

    assert decode_batch(bytes.fromhex(RECORDED[version])) == KvBatch(
        1_700_000_000.5,
        (
            BlocksStored((hashed(9),), None, (7, 7, 7, 300_000), 4, None, None, None, None),
            BlocksStored(
                (hashed(1), hashed(2)),
                hashed(9),
                tuple(range(8)),
                4,
                "fr" if named else "3",
                medium,
                group,
                keys,
            ),
            BlocksRemoved((hashed(2),), medium, group),
            BlocksCleared(),
        ),
        1 if since >= (0, 9, 1) else None,
    )


def test_releases_of_both_shapes_are_recorded() -> None:
    kinds = [type(msgspec.msgpack.decode(bytes.fromhex(batch))[1][0]) for batch in RECORDED.values()]
    assert (kinds.count(list), kinds.count(dict)) == (21, 10)
    assert len(RECORDED) == 31


def test_an_event_of_a_kind_to_come_is_left_out_and_told() -> None:
    batch = batch_of([1.0, [{"type": "BlockMoved", "from": 1}, ["AllBlocksCleared"], ["BlockPinned", 7]]])
    assert batch == KvBatch(1.0, (BlocksCleared(),), None, ("BlockMoved", "BlockPinned"))


def test_a_field_that_is_missing_is_none() -> None:
    assert batch_of([1, [{"type": "BlockStored", "block_hashes": [b"a"], "block_size": 0}]]).events == (
        BlocksStored((b"a",), None, (), None, None, None, None, None),
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (None, "a list of time and events"),
        ("ab", "a list of time and events"),
        ([1.0], "a list of time and events"),
        ([True, []], "begins with its time"),
        (["1.0", []], "begins with its time"),
        ([1.0, {"type": "AllBlocksCleared"}], "events of a batch are a list"),
        ([1.0, [7]], "a mapping or a list"),
        ([1.0, [[]]], "a mapping or a list"),
        ([1.0, [{}]], "does not say its kind"),
        ([1.0, [[3, []]]], "does not say its kind"),
        ([1.0, [{"type": "BlockRemoved"}]], "hashes of an event"),
        ([1.0, [{"type": "BlockRemoved", "block_hashes": [1.5]}]], "hashes of an event"),
        ([1.0, [{"type": "BlockRemoved", "block_hashes": [True]}]], "hashes of an event"),
        ([1.0, [["BlockStored", [1], [2], [], 16, None]]], "parent of a block"),
        ([1.0, [["BlockStored", [1], 2, "no", 16, None]]], "token ids"),
        ([1.0, [["BlockStored", [1], 2, [0.5], 16, None]]], "token ids"),
    ],
)
def test_what_is_no_batch_is_refused_in_words(values: Any, said: str) -> None:
    with pytest.raises(MalformedBatch, match=said):
        batch_of(values)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x92\x01", b"\x91" * 20_000, b"\x01\x02"])
def test_what_is_no_msgpack_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedBatch, match=r"msgpack|list"):
        decode_batch(payload)


@given(st.data())
def test_a_damaged_batch_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray.fromhex(RECORDED[data.draw(st.sampled_from(sorted(RECORDED)))])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    payload = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        batch = decode_batch(payload)
    except MalformedBatch:
        return
    assert isinstance(batch, KvBatch)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_any_value_is_read_or_refused(values: Any) -> None:
    try:
        decode_batch(msgspec.msgpack.encode(values))
    except MalformedBatch:
        return
