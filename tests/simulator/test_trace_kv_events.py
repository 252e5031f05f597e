"""Recordings of vLLM's KV events as traffic."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.hit_curve import hit_curve_of
from hitcurve_simulator.traces import read_trace
from hitcurve_simulator.traces.kv_events import rows_of_batches
from hitcurve_simulator.vllm import CacheManager, Request

BLOCK = 4


def stored(hashes: list[int], parent: int | None, tokens: list[int], **more: Any) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": BLOCK,
        "medium": "GPU",
        **more,
    }


FIRST = stored([1, 2], None, [7] * 8)
LINES = [
    [100.0, [FIRST], 0],
    [100.5, [stored([3], 2, [8] * 4)], 0],
    [101.0, [{"type": "BlockRemoved", "block_hashes": [3], "medium": "GPU"}], 0],
    [130.0, [stored([4], 2, [9] * 4), stored([1, 2], None, [7] * 8, medium="CPU")], 0],
    [160.0, [stored([5], 4, [6] * 4)], 0],
    [170.0, [stored([6], None, [7] * 4, lora_name="a", extra_keys=[["a", "red"]])], 0],
    [180.0, [{"type": "AllBlocksCleared"}], 0],
]
CHAINS = [
    [7] * 8 + [8] * 4,
    [7] * 8 + [9] * 4,
    [7] * 8 + [9] * 4 + [6] * 4,
    [7] * 4,
]


def written(file: Path, lines: list[Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.mark.parametrize("form", ["lists", "objects", "payloads"])
def test_a_request_is_what_was_stored_behind_what_was_found(tmp_path: Path, form: str) -> None:
    lines: list[Any] = LINES
    if form == "objects":
        lines = [{"ts": at_s, "events": events, "rank": rank} for at_s, events, rank in LINES]
    if form == "payloads":
        lines = [{"payload": base64.b64encode(msgspec.msgpack.encode(line)).decode()} for line in LINES]
    trace = read_trace(written(tmp_path / "events.jsonl", lines))
    assert (trace.format, trace.block_size, trace.rejected) == ("kv-events", BLOCK, ())
    assert [list(row.request.prompt_token_ids or ()) for row in trace.rows] == CHAINS
    assert [row.arrival_s for row in trace.rows] == [100.0, 130.0, 160.0, 170.0]
    *plain, other = trace.rows
    assert {(row.request.adapter, row.request.cache_salt) for row in plain} == {(None, None)}
    assert other.request.adapter == "a"
    assert other.request.cache_salt is not None
    assert "red" not in other.request.cache_salt


def test_what_cannot_be_placed_is_named(tmp_path: Path) -> None:
    lines = [
        [1.0, [FIRST]],
        [2.0, [stored([9], 77, [1] * 4)]],
        [3.0, [stored([9], 2, [1] * 3)]],
        [3.5, [stored([9], 2, [1] * 4, block_size=None)]],
        ["now", []],
        {"payload": "%"},
    ]
    trace = read_trace(written(tmp_path / "events.jsonl", lines))
    assert [(finding.line, finding.reason) for finding in trace.rejected] == [
        (2, "its parent was stored before the recording began"),
        (3, "a store without its tokens; the engine's own cache tells them"),
        (5, "a batch begins with its time"),
        (6, "its payload is not base64"),
    ]
    assert len(trace.rows) == 2
    with pytest.raises(UsageError, match=r"blocks of 4 and of 8 tokens"):
        read_trace(
            written(tmp_path / "mixed.jsonl", [[1.0, [FIRST]], [2.0, [stored([9], 2, [1] * 8, block_size=8)]]])
        )


class Recorder:
    """A ``CacheObserver`` that publishes what is stored, as vLLM does."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, object]] = []
        self.found = 0

    def looked_up(self, state: Any, hit_tokens: int) -> None: ...

    def scheduled(self, state: Any, hit_tokens: int) -> None: ...

    def stored(self, state: Any, first_block: int, end_block: int) -> None:
        keys, tokens = state.keys, state.request.prompt_token_ids
        parent = keys[first_block - 1] if first_block else None
        event = stored(keys[first_block:end_block], parent, tokens[first_block * BLOCK : end_block * BLOCK])
        self.lines.append((len(self.lines) + 1, [100.0 * len(self.lines), [event]]))
        self.found += first_block * BLOCK

    def evicted(self, key: Any, gone: bool, request_id: str) -> None: ...

    def preempted(self, state: Any) -> None: ...

    def finished(self, state: Any) -> None: ...

    def reset(self, done: bool) -> None: ...


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=18), min_size=1, max_size=15))
def test_an_estimate_of_the_events_finds_what_the_storing_requests_found(prompts: list[list[int]]) -> None:
    recorder = Recorder()
    manager = CacheManager(None, BLOCK, observer=recorder)  # type: ignore[arg-type]
    for number, prompt in enumerate(prompts):
        state = manager.track(Request(str(number), prompt))
        found = manager.lookup(state)
        manager.admit(state, len(prompt) - len(found) * BLOCK, found)
        manager.finish(state)
    if not recorder.lines:
        return
    size, rows, refused = rows_of_batches(recorder.lines, None)
    assert (size, len(rows), refused) == (BLOCK, len(recorder.lines), [])
    assert hit_curve_of(chains_of(rows, BLOCK, BLOCK).engine).tokens_in(None) == recorder.found
