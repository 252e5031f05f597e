"""Shapes in which traffic comes: packed, piped, sessions of agents, logs of OpenAI's API, other tokenizers."""

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from hitcurve.errors import UsageError
from hitcurve_simulator.traces import Trace, read_trace
from hitcurve_simulator.traces.text import TextPieces, Utf8Bytes, chat_tokens
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name

ROW = {"hash_ids": [1, 2], "input_length": 600}
SESSION = {
    "id": "s1",
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [
        {"t": 0.0, "type": "n", "model": "m", "in": 130, "out": 7, "hash_ids": [1, 2]},
        {"t": 9.0, "type": "n", "model": "m", "in": 200, "out": 1, "hash_ids": [1, 2, 3]},
        {"t": 2.0, "type": "subagent", "requests": [{"t": 3.5, "in": 64, "out": 2, "hash_ids": [9]}]},
    ],
}


def written(folder: Path, *rows: object) -> Path:
    file = folder / "trace.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def lengths(trace: Trace) -> list[int]:
    return [row.request.prompt_tokens for row in trace.rows]


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_bytes(gzip.compress(json.dumps(ROW).encode()))
    assert lengths(read_trace(file)) == [600]


def test_a_line_too_long_to_be_held_is_refused_before_it_is(tmp_path: Path) -> None:
    trace = tmp_path / "long.jsonl.gz"
    with gzip.open(trace, "wb", compresslevel=1) as file:
        file.write(b'{}\n{"text": "')
        for _ in range(66):
            file.write(bytes(1 << 20))
    with pytest.raises(UsageError) as refused:
        read_trace(trace)
    assert str(refused.value) == f"line 2 of {trace} is longer than 64 MiB; write one request a line."


def test_a_little_zstd_that_unpacks_to_very_much_is_refused_as_soon(tmp_path: Path) -> None:
    trace = tmp_path / "bomb.jsonl.zst"
    trace.write_bytes(zstandard.ZstdCompressor().compress(bytes(200 << 20)))
    with pytest.raises(UsageError, match=r"line 1 of .* is longer than 64 MiB; write one request a line"):
        read_trace(trace)


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(json.dumps(ROW).encode())))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", stdin)
    assert lengths(read_trace(Path("-"))) == [600]


def test_zstd_is_known_by_its_content_frame_after_frame(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    lines = "".join(json.dumps(ROW) + "\n" for _ in range(9_000)).encode()
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(lines[70_000:])
    file.write_bytes(zstandard.compress(lines[:70_000]) + streamed)
    assert lengths(read_trace(file)) == [600] * 9_000


def test_without_its_package_zstd_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace"
    file.write_bytes(zstandard.compress(json.dumps(ROW).encode()))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match=r"pip install 'hitcurve\[zstd\]'"):
        read_trace(file)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(json.dumps(ROW).encode() * 9)[:-9], "damaged gzip data"),
        (zstandard.compress(json.dumps(ROW).encode() * 9)[:-3], "damaged zstd data: it is cut off"),
        (b"\x28\xb5\x2f\xfd rest", "damaged zstd data"),
        (b"BZh91AY", "bzip2 data; unpack it first: bzip2 -dc"),
        (b'{\n "requests": ', "begins like a JSON object and is none"),
        (b'[{"hash_ids": ', "begins like a JSON list and is none"),
    ],
)
def test_what_cannot_be_unpacked_or_parsed_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "trace"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        read_trace(file)


@pytest.mark.parametrize("indent", [None, 1])
def test_a_session_is_its_requests_and_those_of_its_subagents_by_time(tmp_path: Path, indent: int | None) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(SESSION, indent=indent))
    trace = read_trace(file)
    assert (trace.format, trace.block_size, trace.ids_are_local) == ("kv-cache-tester", 64, True)
    assert [row.arrival_s for row in trace.rows] == [0.0, 3.5, 9.0]
    assert [list(row.block_ids or ()) for row in trace.rows] == [[1, 2], [9], [1, 2, 3]]
    assert lengths(trace) == [130, 64, 200]
    assert {row.session for row in trace.rows} == {"s1"}
    assert trace.rows[0].output_tokens == 7


def test_a_session_names_its_bad_requests_and_keeps_its_block_size(tmp_path: Path) -> None:
    bad = {**SESSION, "requests": [*SESSION["requests"], {"in": "many"}, 7]}  # type: ignore[misc]
    trace = read_trace(written(tmp_path, bad))
    assert len(trace.rows) == 3
    assert [finding.reason for finding in trace.rejected] == [
        "input_length is not a whole number of tokens",
        "neither hash_ids nor tokens nor input_length",
    ]
    with pytest.raises(UsageError, match="has hash ids of 64 tokens, not 16"):
        read_trace(written(tmp_path, SESSION), 16)


MESSAGES = [{"role": "user", "content": "Say hello."}]


@pytest.mark.parametrize(
    "row",
    [
        {"model": "sql", "user": "u7", "messages": MESSAGES, "created": 1500, "usage": {"completion_tokens": 9}},
        {"custom_id": "1", "created": 1500, "body": {"model": "sql", "messages": MESSAGES, "user": "u7"}},
        {
            "timestamp": "1970-01-01T00:25:00+00:00",
            "request": {"model": "base", "lora": "sql", "messages": MESSAGES, "tenant": "u7"},
            "response": {"body": {"usage": {"completion_tokens": 9}}},
        },
    ],
)
def test_a_logged_request_bare_or_wrapped(tmp_path: Path, row: dict[str, object]) -> None:
    (found,) = read_trace(written(tmp_path, row)).rows
    assert list(found.request.prompt_token_ids or ()) == chat_tokens(TextPieces(), MESSAGES)
    assert (found.request.adapter, found.tenant, found.arrival_s) == ("sql", "u7", 1500.0)
    assert found.output_tokens == (0 if "custom_id" in row else 9)


def test_parts_calls_and_tools_are_text_and_pictures_are_refused(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    parts = {"role": "user", "content": [{"type": "text", "text": "Say "}, {"type": "text", "text": "hello."}]}
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    tools = [{"type": "function", "function": {"name": "f"}}]
    rows = (
        {"messages": [parts, call], "tools": tools},
        {"messages": [parts, call]},
        {"messages": [picture]},
        {"messages": MESSAGES},
    )
    trace = read_trace(written(tmp_path, *rows))
    first, second, third = (list(row.request.prompt_token_ids or ()) for row in trace.rows)
    assert first[-len(second) :] == second
    assert second[: len(third) - 4] == third[:-4]
    assert [(finding.line, finding.reason) for finding in trace.rejected] == [
        (3, "the content of a message is not text")
    ]


def test_bytes_are_a_tokenizer_and_every_tokenizer_gives_its_text_back(tmp_path: Path) -> None:
    file = written(tmp_path, {"prompt": "naïve 1+1"})
    (row,) = read_trace(file, tokenizer=Utf8Bytes()).rows
    assert row.request.prompt_tokens == 10
    for tokenizer in (Utf8Bytes(), TextPieces()):
        tokens = tokenizer.token_ids("naïve 1+1, said\n twice")
        assert tokenizer.text(tokens) == "naïve 1+1, said\n twice"


def test_a_models_tokenizer_is_a_file_and_its_package_is_named_where_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(tokenizer_by_name("bytes"), Utf8Bytes)
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UsageError, match="pip install tokenizers"):
        tokenizer_by_name(str(tmp_path))
    loaded = SimpleNamespace(
        encode=lambda text, add_special_tokens: SimpleNamespace(ids=[len(word) for word in text.split()]),
        decode=lambda token_ids, skip_special_tokens: " ".join("x" * size for size in token_ids),
    )
    package = SimpleNamespace(Tokenizer=SimpleNamespace(from_file=lambda path: loaded))
    monkeypatch.setitem(sys.modules, "tokenizers", package)  # type: ignore[arg-type]
    tokenizer = tokenizer_by_name(str(tmp_path / "tokenizer.json"))
    assert tokenizer.token_ids("say it") == [3, 2]
    assert tokenizer.text([3, 2]) == "xxx xx"


TEMPLATE = (
    "{{ bos_token }}{% if tools %}[{{ tools | tojson }}]{% endif %}\n"
    "{% for message in messages %}\n"
    "{% if message.role == 'other' %}{{ raise_exception('no such role') }}{% endif %}\n"
    "<{{ message.role }}>{{ message.content }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.mark.parametrize("in_config", [False, True])
def test_a_models_folder_brings_its_chat_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_config: bool
) -> None:
    loaded = SimpleNamespace(encode=lambda text, add_special_tokens: SimpleNamespace(ids=list(text.encode())))
    package = SimpleNamespace(Tokenizer=SimpleNamespace(from_file=lambda path: loaded))
    monkeypatch.setitem(sys.modules, "tokenizers", package)  # type: ignore[arg-type]
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--some--model" / "snapshots" / "1"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{}")
    config = {"bos_token": {"content": "<s>"}, **({"chat_template": TEMPLATE} if in_config else {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if not in_config:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    file = written(
        tmp_path,
        {"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "t"}]},
        {"messages": [{"role": "other", "content": "hi"}]},
    )
    trace = read_trace(file, tokenizer=tokenizer_by_name("some/model"))
    (row,) = trace.rows
    said = bytes(list(row.request.prompt_token_ids or ())).decode()
    assert said == '<s>[[{"name": "t"}]]<user>hi\n<assistant>'
    assert [(finding.line, finding.reason) for finding in trace.rejected] == [
        (2, "the chat template refuses the messages: no such role")
    ]
