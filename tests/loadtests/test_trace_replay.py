"""Replay of traces: the prompts share exactly what the trace says they share."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.errors import UsageError
from hitcurve_loadtests.replay.opening import open_trace
from hitcurve_loadtests.replay.rows import Trace, TraceRow
from hitcurve_loadtests.replay.traffic import TraceReplay, due_times
from hitcurve_loadtests.texts import Texts

BLOCK = 64


def texts(rows: Sequence[TraceRow], *, block_size: int = BLOCK, seed: int = 1) -> list[str]:
    replay = TraceReplay(Trace("mooncake", block_size, tuple(rows)), Texts(seed))
    prompts = [replay.next() for _ in rows]
    assert replay.next() is None
    return [prompt.text for prompt in prompts if prompt]


def shared_blocks(chains: Sequence[Sequence[object]]) -> list[int]:
    """For each chain, how many of its first links an earlier chain began with."""
    seen: set[tuple[object, ...]] = set()
    shared = []
    for chain in chains:
        prefixes = [tuple(chain[:end]) for end in range(1, len(chain) + 1)]
        shared.append(len(list(itertools.takewhile(seen.__contains__, prefixes))))
        seen.update(prefixes)
    return shared


def in_blocks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text) - size + 1, size)]


@given(
    chains=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=8),
    engine_block=st.sampled_from([16, 32, 64]),
)
def test_an_engine_finds_the_sharing_of_the_trace(chains: list[list[int]], engine_block: int) -> None:
    rows = [TraceRow(None, len(chain) * BLOCK, 1, tuple(chain)) for chain in chains]
    found = shared_blocks([in_blocks(text, engine_block) for text in texts(rows)])
    assert found == [BLOCK // engine_block * blocks for blocks in shared_blocks(chains)]


def test_the_public_trace_keeps_its_lengths_and_its_sharing(shared: Path) -> None:
    trace = open_trace(shared / "traces/mooncake_fast25_conversation_trace.jsonl")
    rows = trace.rows
    assert (trace.format, trace.block_size) == ("mooncake", 512)
    assert len(rows) == 12031
    few = rows[:400]
    prompts = texts(few, block_size=512)
    assert [len(text) for text in prompts] == [row.input_tokens for row in few]
    full = [row.hash_ids[: row.input_tokens // 512] for row in few]
    assert shared_blocks([in_blocks(text, 512) for text in prompts]) == shared_blocks(full)
    assert sum(shared_blocks(full)) > 400


def test_other_seeds_share_nothing() -> None:
    rows = [TraceRow(None, 2 * BLOCK, 1, (0, 1))]
    assert texts(rows, seed=1)[0][:16] != texts(rows, seed=2)[0][:16]


def test_prompts_and_outputs_can_be_cut() -> None:
    rows = [TraceRow(None, 100, 40, (0, 1)), TraceRow(None, 30, 5, (2,))]
    trace = Trace("mooncake", BLOCK, tuple(rows))
    replay = TraceReplay(trace, Texts(1), max_prompt_tokens=70, max_output_tokens=8)
    prompts = [replay.next(), replay.next()]
    assert [(len(prompt.text), prompt.output_tokens) for prompt in prompts if prompt] == [(70, 8), (30, 5)]


def test_a_tail_without_an_id_is_nobody_elses() -> None:
    rows = [TraceRow(None, BLOCK + 40, 1, (7,)), TraceRow(None, BLOCK + 40, 1, (7,))]
    one, other = texts(rows)
    assert len(one) == len(other) == BLOCK + 40
    assert one[:BLOCK] == other[:BLOCK]
    assert one[BLOCK : BLOCK + 16] != other[BLOCK : BLOCK + 16]


def test_due_times_start_at_zero_and_follow_the_speed() -> None:
    rows = [TraceRow(at_s, 1, 1, ()) for at_s in (10.0, 11.0, 14.0)]
    assert list(due_times(rows, 2.0) or ()) == [0.0, 0.5, 2.0]
    assert due_times([TraceRow(None, 1, 1, ())], 2.0) is None


GOOD = {"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{nope", "{path}:2: not JSON"),
        ("[1]", "{path}:2: not a JSON object; a trace holds one JSON object a line."),
        (json.dumps({**GOOD, "hash_ids": None}), "{path}:2: 'hash_ids' must be a list"),
        (json.dumps({**GOOD, "hash_ids": [1, True]}), "{path}:2: 'hash_ids' must be a list"),
        (json.dumps({**GOOD, "input_length": "600"}), "{path}:2: 'input_length' must be a whole number"),
        (json.dumps({**GOOD, "output_length": -1}), "{path}:2: 'output_length' must be a whole number"),
        (
            json.dumps({**GOOD, "input_length": 99999}),
            "{path}:2: 2 hash ids do not fit 99999 tokens in blocks of 512",
        ),
        (json.dumps({**GOOD, "timestamp": "now"}), "{path}:2: 'timestamp' must be a number of milliseconds"),
        (json.dumps({**GOOD, "timestamp": -5}), "{path}: the timestamps run backwards; sort the trace"),
        (json.dumps({**GOOD, "timestamp": None}), "{path}: some lines have a 'timestamp' and some have none"),
    ],
)
def test_a_bad_line_is_named_with_its_cure(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(UsageError) as caught:
        open_trace(path)
    assert str(caught.value).startswith(complaint.format(path=path))


def test_a_trace_that_is_missing_or_empty(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing.jsonl cannot be read \(No such file or directory\); name one"):
        open_trace(tmp_path / "missing.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match="holds no request"):
        open_trace(tmp_path / "empty.jsonl")
