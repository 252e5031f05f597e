"""``hitcurve simulate``: public traces, options, what a person sees, what goes wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

Call = Callable[..., tuple[int | str | None, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs ``hitcurve simulate``; exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments: object) -> tuple[int | str | None, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(["simulate", *map(str, arguments)])
        printed = capsys.readouterr()
        return exit_.value.code, printed.out, printed.err

    return run


def answer_of(call: Call, *arguments: object) -> dict[str, Any]:
    code, out, err = call(*arguments, "--json")
    assert code == 0, err
    values: dict[str, Any] = json.loads(out)
    return values


def written(folder: Path, *rows: object) -> Path:
    file = folder / "trace.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.parametrize(
    ("name", "rules", "pool", "block_rate", "token_rate"),
    [
        ("conversation", "lru", "unlimited", 0.36641, 0.37362),
        ("conversation", "lru", 5859, 0.1361, 0.1387),
        ("conversation", "lru", 97656, 0.3635, 0.3707),
        ("conversation", "lru-head-first", 5859, 0.1355, None),
        ("synthetic", "lru", "unlimited", 0.63960, 0.65124),
        ("synthetic", "lru", 5859, 0.3094, 0.3151),
        ("synthetic", "lru", 97656, 0.6396, 0.6512),
        ("synthetic", "lru-head-first", 5859, 0.3094, None),
    ],
)
def test_lru_over_public_traces(
    shared: Path,
    call: Call,
    name: str,
    rules: str,
    pool: int | str,
    block_rate: float,
    token_rate: float | None,
) -> None:
    file = shared / "traces" / f"mooncake_fast25_{name}_trace.jsonl"
    answer = answer_of(call, file, "--rules", rules, "--pool-blocks", pool)
    digits = 5 if pool == "unlimited" else 4
    assert round(answer["block_hit_rate"], digits) == block_rate
    if token_rate is not None:
        assert round(answer["hit_rate"], digits) == token_rate


@pytest.mark.parametrize(
    ("name", "mean_of_ratios", "last_half", "full_blocks"),
    [("conversation", 0.4094, 0.3981, 0.3819), ("synthetic", 0.4315, 0.8627, 0.6594)],
)
def test_other_definitions_follow_from_hits_per_request(
    shared: Path, call: Call, name: str, mean_of_ratios: float, last_half: float, full_blocks: float
) -> None:
    file = shared / "traces" / f"mooncake_fast25_{name}_trace.jsonl"
    lengths = [json.loads(line)["input_length"] for line in file.read_text().splitlines()]
    hits = answer_of(call, file, "--rules", "lru", "--per-request")["hit_tokens_per_request"]
    ratios = [hit / length for hit, length in zip(hits, lengths, strict=True)]
    assert round(sum(ratios) / len(ratios), 4) == mean_of_ratios
    half = len(hits) // 2
    assert round(sum(hits[half:]) / sum(lengths[half:]), 4) == last_half
    full = sum(hit // 512 for hit in hits) / sum(length // 512 for length in lengths)
    assert round(full, 4) == full_blocks


@pytest.mark.parametrize("workload", ["A", "D", "E", "F"])
def test_v0_hits_what_the_newest_v1_hits(call: Call, workload: str) -> None:
    """Seen on the real engines: the rule of 0.24 brings V1 to what V0 did."""
    answers = [answer_of(call, workload, "--rules", rules) for rules in ("vllm", "vllm-v0")]
    assert answers[0]["hit_tokens"] == answers[1]["hit_tokens"]
    assert answers[0]["evicted_blocks"] == answers[1]["evicted_blocks"]


def test_json_has_the_keys_of_the_contract(call: Call, tmp_path: Path) -> None:
    row = {"hash_ids": ["x", "y"], "input_length": 32}
    answer = answer_of(call, written(tmp_path, row, row), "--block-size", 16, "--per-request")
    assert answer == {
        "requests": 2,
        "query_tokens": 64,
        "hit_tokens": 16,
        "hit_rate": 0.25,
        "evicted_blocks": 0,
        "miss_tokens": {
            "compulsory": 16,
            "capacity": 0,
            "reset": 0,
            "isolated": 0,
            "tail": 32,
            "stranded": 0,
        },
        "rejected": [],
        "isolated_by": {"adapter": 0, "salt": 0, "image": 0},
        "engine_counters": {"unit": "tokens", "queries": 64, "hits": 16},
        "skipped": {"requests": 0, "tokens": 0},
        "hit_tokens_per_request": [0, 16],
        "arrival_s_per_request": [None, None],
        "rules": "vllm",
        "version": "0.32.0",
        "block_size": 16,
        "pool_blocks": None,
        "concurrency": 1,
        "outputs": False,
        "format": "mooncake",
        "duration_s": None,
        "sessions": [],
        "warnings": [],
    }


def test_requests_that_may_not_read_the_cache_are_counted_apart(call: Call, tmp_path: Path) -> None:
    row = {"token_ids": list(range(40))}
    file = written(tmp_path, {**row, "skip_reading_prefix_cache": True}, row)
    answer = answer_of(call, file, "--per-request")
    assert (answer["query_tokens"], answer["hit_tokens"]) == (40, 32)
    assert answer["skipped"] == {"requests": 1, "tokens": 40}
    assert answer["hit_tokens_per_request"] == [None, 32]


def test_a_trace_without_lookups_has_no_rate(call: Call, tmp_path: Path) -> None:
    file = written(tmp_path, {"token_ids": [1, 2, 3], "skip_reading_prefix_cache": True})
    assert answer_of(call, file)["hit_rate"] is None
    code, out, _ = call(file)
    assert code == 0
    assert "no value" in out


def test_capacity_misses_come_from_evictions(call: Call, tmp_path: Path) -> None:
    rows = [{"hash_ids": ids, "input_length": 49} for ids in ([1, 2, 3], [4, 5, 6], [1, 2, 3])]
    answer = answer_of(call, written(tmp_path, *rows), "--block-size", 16, "--pool-blocks", 4)
    # Two of the first chain are evicted for the second, tail first; its head is hit in the third request.
    assert answer["hit_tokens"] == 16
    assert answer["miss_tokens"]["capacity"] == 32
    assert answer["evicted_blocks"] == 2 + 2


def test_outputs_take_room_only_when_asked(call: Call, tmp_path: Path) -> None:
    rows = [{"hash_ids": [i], "input_length": 16, "output_length": 33} for i in (1, 2, 1)]
    file = written(tmp_path, *rows)
    options = ("--block-size", 16, "--pool-blocks", 3)
    assert answer_of(call, file, *options)["evicted_blocks"] == 0
    assert answer_of(call, file, *options, "--outputs")["evicted_blocks"] == 6


def test_concurrent_requests_hold_their_blocks(call: Call, tmp_path: Path) -> None:
    rows = [{"hash_ids": [10 * i, 10 * i + 1], "input_length": 33} for i in range(4)]
    file = written(tmp_path, *rows, {"hash_ids": [20, 21], "input_length": 33})
    options = ("--block-size", 16, "--pool-blocks", 5)
    # Two at a time: blocks 20 and 21 are still held when the last request asks for them, else they are too old.
    assert answer_of(call, file, *options, "--concurrency", 2)["hit_tokens"] == 32
    assert answer_of(call, file, *options)["hit_tokens"] == 32


def test_old_versions_count_blocks(call: Call) -> None:
    answer = answer_of(call, "B", "--version", "0.8.5")
    counters = answer["engine_counters"]
    assert counters["unit"] == "blocks"
    assert counters["hits"] == 255 * 63
    assert answer["hit_tokens"] == 255 * 1008


def test_people_get_a_table(call: Call, tmp_path: Path) -> None:
    code, out, err = call(
        written(tmp_path, {"hash_ids": [1], "input_length": 16}, {"hash_ids": [1], "input_length": 90}),
        "--block-size",
        16,
        "--per-request",
    )
    assert (code, err) == (0, "")
    assert "trace.jsonl: vllm 0.32.0, no limit, blocks of 16" in out
    assert "missed: compulsory" in out
    assert "2 requests, 0 blocks evicted" in out
    assert "warning: line 2: 1 id for 90 tokens, rest treated as unique" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.jsonl"], "'nowhere.jsonl' is neither a workload (A, B, C, D, E, F) nor a file"),
        (["A", "--rules", "radix"], "there are no rules 'radix'; the rules are vllm, "),
        (["A", "--rules", "sglang", "--version", "0.4"], "follow version 0.5.22 only"),
        (["A", "--rules", "sglang", "--policy", "best"], "--policy is 'best'; give one of lru, lfu, fifo"),
        (["A", "--rules", "lru", "--version", "0.32.0"], "the rules 'lru' follow no engine; leave it out."),
        (["A", "--policy", "lfu"], "--policy is for the rules 'sglang'"),
        (["A", "--page-size", "1"], "--page-size is for the rules 'sglang'; for 'vllm' give --block-size."),
        (["A", "--version", "0.34.0"], "--version: no rules for vLLM 0.34.0: the newest known are those of 0.33."),
        (["A", "--lifetime", "1h"], "--lifetime is for the rules 'explicit'; the rules 'vllm' do not know it"),
        (["A", "--rules", "explicit", "--lifetime", ""], "--lifetime is ''; give 5m or 1h."),
        (["A", "--rules", "lru", "--prices", "1,2,3"], "--prices is for the rules 'explicit'; the rules 'lru' do"),
        (["A", "--rules", "explicit", "--prices", "1"], "--prices is '1'; give multiples of a plain input token"),
        (["A", "--version", "new"], "--version: 'new' is no vLLM version such as 0.32.0."),
        (["A", "--pool-blocks", "many"], "--pool-blocks is 'many'; give a number of blocks from 1 on"),
        (["A", "--pool-blocks", "0"], "--pool-blocks is '0'; give a number of blocks from 1 on"),
        (["A", "--time-unit", "h"], "--time-unit is 'h'; give ms or s."),
        (["A", "--pool-blocks", "3"], "no request of workload A fits: line 1 needs"),
        (["."], "cannot be read: Is a directory; give a file that can."),
    ],
)
def test_wrong_usage_is_one_sentence(call: Call, arguments: list[str], sentence: str) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "holds no request: it is empty."),
        (b"<html></html>\n", "line 1: not JSON: '<html></html>'"),
        (b"3\n", "line 1: not a JSON object"),
        (b'{"hash_ids": 3}\n', "line 1: hash_ids is not a list"),
        (b'{"hash_ids": [1.5]}\n', "line 1: hash id 1 is neither a whole number nor a string"),
        (b'{"token_ids": ["a"]}\n', "line 1: token ids are not a list of whole numbers"),
        (b'{"messages": [{"role": "user"}]}\n', "line 1: the content of a message is not text"),
        (b'{"timestamp": 1}\n', "line 1: neither hash_ids nor tokens nor input_length"),
        (b'{"input_length": -4}\n', "line 1: input_length is not a whole number of tokens"),
        (
            b'{"hash_ids": [1], "input_length": 900000000000}\n',
            "line 1: input_length is 900,000,000,000 tokens, more than any prompt holds (100,000,000)",
        ),
        (b'{"token_ids": [1, -1]}\n', "line 1: token ids are not a list of whole numbers"),
        (b'{"input_length": 4, "timestamp": NaN}\n', "line 1: timestamp is not a number"),
        (b'{"input_length": 4, "lora": [1]}\n', "line 1: lora is not a name"),
        (b"\xff\xfe\x00\n", "line 1: not"),
        (b"[1, 2\n", "begins like a JSON list and is none"),
    ],
)
def test_unreadable_traces_are_one_sentence(call: Call, tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(content)
    code, out, err = call(file)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
