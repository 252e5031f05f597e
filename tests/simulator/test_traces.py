"""Reading traces: tokens, text, chats, sessions."""

import json
from pathlib import Path

import pytest

from hitcurve_simulator.traces import Trace, read_trace
from hitcurve_simulator.traces.text import TextPieces, chat_tokens


def read(folder: Path, *rows: object, **options: object) -> Trace:
    file = folder / "trace.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return read_trace(file, **options)  # type: ignore[arg-type]


def test_a_row_becomes_a_request(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        {
            "timestamp": 1500,
            "hash_ids": [1, "b", -3],
            "input_length": 40,
            "output_length": 7,
            "lora": "sql",
            "cache_salt": "t",
            "session": 4,
        },
        block_size=16,
    )
    (row,) = trace.rows
    request = row.request
    assert (request.prompt_tokens, request.max_output_tokens) == (40, 7)
    assert (request.adapter, request.cache_salt) == ("sql", "t")
    assert tuple(request.block_contents or ()) == (1, "b")
    assert list(row.block_ids or ()) == [1, "b", -3]
    assert (row.arrival_s, row.session, row.output_tokens) == (1.5, "4", 7)


def test_fractions_of_a_timestamp_are_seconds_and_an_option_overrides(tmp_path: Path) -> None:
    rows = ({"input_length": 1, "timestamp": 0}, {"input_length": 1, "timestamp": 2.5})
    assert read(tmp_path, *rows).duration_s == 2.5
    assert read(tmp_path, *rows, time_unit="ms").duration_s == 0.0025


def test_equal_text_shares_its_tokens_and_a_chat_extends_itself(tmp_path: Path) -> None:
    question = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 1 + 1?"}]
    longer = [*question, {"role": "assistant", "content": "2"}, {"role": "user", "content": "Sure?"}]
    trace = read(tmp_path, {"messages": question}, {"messages": longer}, {"prompt": "Be brief."})
    first, second, third = (list(row.request.prompt_token_ids or ()) for row in trace.rows)
    assert second[: len(first)] == first
    assert len(second) > len(first)
    assert set(third) <= set(first)
    reply = TextPieces()
    prompt = chat_tokens(reply, question)
    assert chat_tokens(reply, longer)[: len(prompt) + 1] == prompt + reply.token_ids("2")


def test_conversations_keep_system_and_history(tmp_path: Path) -> None:
    said = [("system", "rules"), ("human", "q1"), ("gpt", "a1"), ("human", "q2"), ("gpt", "a2")]
    turns = [{"from": who, "value": what} for who, what in said]
    trace = read(tmp_path, {"id": "c", "conversations": turns})
    rows = trace.rows
    assert [row.session for row in rows] == ["c", "c"]
    first, second = (list(row.request.prompt_token_ids or ()) for row in rows)
    asked = [{"role": "system", "content": "rules"}, {"role": "user", "content": "q1"}]
    assert len(first) == len(chat_tokens(TextPieces(), asked))
    so_far = first + list(rows[0].output_token_ids)
    assert second[: len(so_far)] == so_far
    assert len(second) > len(so_far)
    assert (rows[0].output_tokens, rows[1].output_tokens) == (1, 1)


def test_next_turn_names_the_blocks_that_the_output_filled(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        {"chat_id": 1, "parent_chat_id": -1, "input_length": 20, "output_length": 30, "hash_ids": [1, 2]},
        {"chat_id": 2, "parent_chat_id": 1, "input_length": 64, "output_length": 1, "hash_ids": [1, 20, 21, 22]},
        {"chat_id": 2, "parent_chat_id": 9, "input_length": 8, "output_length": 1, "hash_ids": [5]},
    )
    # 20 + 29 computed tokens fill three blocks of 16; the second was half prompt and has another id now.
    assert [tuple(row.request.block_contents or ()) for row in trace.rows] == [(1, 20, 21), (1, 20, 21, 22), ()]
    assert trace.sessions == (("1", "2"), ("line 3",))
    assert [(w.line, w.reason) for w in trace.warnings] == [(3, "parent 9 is outside the file, starts a session")]


def test_a_parent_that_comes_later_or_is_the_row_itself_is_none(tmp_path: Path) -> None:
    lengths = {"input_length": 16, "output_length": 1, "hash_ids": [1]}
    trace = read(
        tmp_path,
        {"chat_id": 1, "parent_chat_id": 1, **lengths},
        {"chat_id": 2, "parent_chat_id": 3, **lengths},
        {"chat_id": 3, "parent_chat_id": 2, **lengths},
    )
    assert trace.sessions == (("1",), ("2", "3"))
    assert [(w.line, w.reason) for w in trace.warnings] == [
        (1, "parent 1 does not come before it, starts a session"),
        (2, "parent 3 does not come before it, starts a session"),
    ]


def test_delta_turns_need_bare_rows(tmp_path: Path) -> None:
    rows = (
        {"session": "s", "input_length": 10, "output_length": 5},
        {"session": "s", "input_length": 3, "output_length": 5},
        {"session": "s", "token_ids": [1]},
        {"input_length": 7},
    )
    trace = read(tmp_path, *rows, turns="delta")
    assert [row.request.prompt_tokens for row in trace.rows] == [10, 18, 7]
    assert [finding.line for finding in trace.rejected] == [3]


@pytest.mark.parametrize("name", ["mooncake", "list"])
def test_a_json_list_of_rows_reads_like_lines(tmp_path: Path, name: str) -> None:
    rows = [{"hash_ids": [1], "input_length": 512}, {"hash_ids": [2], "input_length": 100}]
    file = tmp_path / "trace"
    file.write_text(json.dumps(rows) if name == "list" else "\r\n".join(map(json.dumps, rows)))
    trace = read_trace(file)
    assert [row.request.prompt_tokens for row in trace.rows] == [512, 100]
    assert [row.line for row in trace.rows] == [1, 2]
    assert trace.format == "mooncake"
