"""Every trace format: recognised by its content, read as recorded, refused with the place of what is wrong."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve_loadtests.prompts import Message
from hitcurve_loadtests.replay.opening import open_trace
from hitcurve_loadtests.replay.rows import Trace, TraceRow
from hitcurve_loadtests.replay.traffic import TraceReplay
from hitcurve_loadtests.texts import Texts


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_bailian(tmp_path: Path) -> None:
    line = {"input_length": 40}
    path = written(
        tmp_path / "b.jsonl",
        {**line, "chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5, "output_length": 7, "hash_ids": [1, 2, 3]},
        {**line, "chat_id": 2, "parent_chat_id": 1, "timestamp": 3, "output_length": 2, "hash_ids": [1, 2, 9]},
    )
    trace = open_trace(path)
    assert (trace.format, trace.block_size, trace.api) == ("bailian", 16, "completions")
    assert trace.rows == (TraceRow(1.5, 40, 7, (1, 2, 3)), TraceRow(3.0, 40, 2, (1, 2, 9)))


def test_sessions_with_subagents_and_think_time(tmp_path: Path) -> None:
    session = {
        "id": "s",
        "block_size": 64,
        "requests": [
            {"t": 0.0, "in": 130, "out": 5, "hash_ids": [1, 2]},
            {"type": "subagent", "requests": [{"t": 9.0, "in": 70, "out": 3, "hash_ids": [7]}]},
            {"t": 4.0, "in": 200, "out": 1, "hash_ids": [1, 2, 3]},
        ],
    }
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(session))
    (folder / "b.json").write_text(json.dumps(session, indent=1))
    trace = open_trace(folder)
    assert (trace.format, trace.block_size) == ("kv-cache-tester", 64)
    assert [(row.at_s, row.input_tokens) for row in trace.rows] == [
        *[(0.0, 130), (4.0, 200), (9.0, 70)],
        *[(60.0, 130), (64.0, 200), (69.0, 70)],
    ]
    replay = TraceReplay(trace, Texts(1))
    prompts = [replay.next() for _ in trace.rows]
    texts = [prompt.text for prompt in prompts if prompt]
    assert [len(text) for text in texts] == [130, 200, 70] * 2
    # Ids are valid within a session only, and what has no id is shared with nobody.
    assert texts[0][:128] == texts[1][:128]
    assert texts[0][128] != texts[1][128] or texts[0][128:130] != texts[1][128:130]
    assert texts[0][:64] != texts[3][:64]
    assert open_trace(folder / "a.json").rows[0].scope == str(folder / "a.json")


def test_the_public_sessions_keep_their_lengths(shared: Path, tmp_path: Path) -> None:
    with tarfile.open(shared / "traces/kv_cache_tester_sample60.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    trace = open_trace(tmp_path)
    assert trace.block_size == 64
    assert len({row.scope for row in trace.rows}) == 60
    assert all(len(row.hash_ids) == row.input_tokens // 64 for row in trace.rows)


def test_azure_has_lengths_only(shared: Path) -> None:
    trace = open_trace(shared / "traces/azure_llm_2023_conv.csv")
    assert (trace.format, len(trace.rows)) == ("azure", 19366)
    first, second = trace.rows[:2]
    assert (first.input_tokens, first.output_tokens, first.hash_ids) == (374, 44, ())
    assert first.at_s is not None
    assert second.at_s is not None
    assert second.at_s - first.at_s == pytest.approx(4.3145790, abs=1e-5)
    replay = TraceReplay(trace, Texts(1))
    one, other = replay.next(), replay.next()
    assert one is not None
    assert other is not None
    assert (len(one.text), len(other.text)) == (374, 396)
    assert one.text[:16] != other.text[:16]


def test_sharegpt_asks_each_question_with_all_that_was_said(tmp_path: Path) -> None:
    said = [
        {"from": "gpt", "value": "before anybody asked"},
        {"from": "human", "value": "hello"},
        {"from": "gpt", "value": "hi " * 20},
        {"from": "human", "value": "and?"},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps([{"id": "c", "conversations": said}], indent=1))
    trace = open_trace(path)
    assert (trace.format, trace.api) == ("sharegpt", "chat")
    one, other = trace.rows
    assert (one.messages, one.output_tokens) == ((Message("user", "hello"),), 15)
    assert [message.role for message in other.messages] == ["user", "assistant", "user"]


def test_openai_logs_bare_and_wrapped(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.jsonl",
        {
            "timestamp": "2026-01-01T00:00:10+00:00",
            "request": {"messages": [{"role": "user", "content": [{"type": "text", "text": "late"}]}]},
            "response": {"body": {"usage": {"completion_tokens": 9}}},
        },
        {
            "timestamp": "2026-01-01T00:00:00+00:00",
            "body": {"messages": [{"role": "system", "content": "be kind"}], "max_tokens": 3, "cache_salt": "x"},
        },
    )
    trace = open_trace(path)
    assert (trace.format, trace.api) == ("openai", "chat")
    first, second = trace.rows
    assert first.messages == (Message("system", "be kind"),)
    assert (first.output_tokens, first.cache_salt) == (3, "x")
    assert second.messages == (Message("user", "late"),)
    assert second.output_tokens == 9
    assert second.at_s is not None
    assert first.at_s is not None
    assert second.at_s - first.at_s == 10
    bare = written(tmp_path / "bare.jsonl", {"prompt": "complete me"})
    assert open_trace(bare) == Trace(
        "openai", 1, (TraceRow(None, 0, 16, messages=(Message("user", "complete me"),)),)
    )


def test_a_compressed_trace_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"input_length": 600, "hash_ids": [1, 2]}\n'))
    assert open_trace(path).rows == (TraceRow(None, 600, 1, (1, 2)),)


@pytest.mark.parametrize(("first", "last"), [(0, -9), (0, 14), (20, None)])
def test_a_damaged_compressed_trace_is_called_damaged(tmp_path: Path, first: int, last: int | None) -> None:
    packed = gzip.compress(b'{"input_length": 600, "hash_ids": [1, 2]}\n')
    path = tmp_path / "m.jsonl.gz"
    # The head of the file alone, or its head with the middle gone.
    path.write_bytes(packed[:10] + packed[first:last] if first else packed[:last])
    with pytest.raises(UsageError, match=r"m\.jsonl\.gz cannot be read \(its gzip data is damaged\); name one"):
        open_trace(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"id": "s", "requests": []}', "{path}: the session states no 'block_size'; correct the file."),
        ('{"id": "s", "block_size": 64, "requests": [{"in": 3}]}', "{path}, request 1: 't' must be a number of"),
        ("TIMESTAMP,Context\n1,2\n", "{path}:1: not an Azure trace; its columns are TIMESTAMP, ContextTokens,"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,2\n", "{path}:2: Invalid isoformat string: 'noon'"),
        ('{"messages": [{"role": "user"}]}', "{path}:1: a message has no role or no text;"),
        ('{"prompt": [1, 2]}', "{path}:1: the request has neither 'messages' nor a 'prompt' of text."),
        ('{"prompt": "x", "timestamp": "soon"}', "{path}:1: the time 'soon' is neither seconds nor ISO 8601."),
        (
            '{"hash_ids": [1], "input_length": 9, "output_length": 100000001}',
            "{path}:1: 'output_length' is 100000001; no engine takes more than 100000000 tokens.",
        ),
        ("[1]", "{path}, entry 1: not a JSON object; a trace holds one JSON object a line."),
    ],
)
def test_what_cannot_be_read_is_named(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        open_trace(path)
    assert str(caught.value).startswith(complaint.format(path=path))


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_is_told_to_be_unpacked(mode: Any, tmp_path: Path) -> None:
    path = tmp_path / "sessions.tar.gz"
    with tarfile.open(path, mode) as archive:
        archive.add(written(tmp_path / "one.json", {"requests": []}), "one.json")
    with pytest.raises(UsageError) as told:
        open_trace(path)
    assert str(told.value) == f"{path} is a tar archive; unpack it and name a file or a folder of it."
