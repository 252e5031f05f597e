"""The simulator's cases of the case log, through ``hitcurve simulate --json``."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

Simulate = Callable[..., dict[str, Any]]


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str]) -> Simulate:
    """Runs ``hitcurve simulate`` and gives what it prints."""

    def run(*arguments: object) -> dict[str, Any]:
        with pytest.raises(SystemExit) as exit_:
            main(["simulate", *map(str, arguments), "--per-request", "--json"])
        printed = capsys.readouterr()
        assert exit_.value.code == 0, printed.err
        answer: dict[str, Any] = json.loads(printed.out)
        assert answer["hit_tokens"] + sum(answer["miss_tokens"].values()) == answer["query_tokens"]
        return answer

    return run


def expected(shared: Path, case: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((shared / "cases" / case / "expected.json").read_text())
    return values


def trace(shared: Path, case: str, name: str = "trace.jsonl") -> Path:
    return shared / "cases" / case / name


def check_hits(answer: dict[str, Any], expect: dict[str, Any]) -> None:
    assert answer["hit_tokens_per_request"] == expect["hit_tokens"]
    assert answer["hit_tokens"] == sum(expect["hit_tokens"])
    assert answer["query_tokens"] == expect["prompt_tokens"]
    assert answer["hit_rate"] == pytest.approx(expect["hit_rate"], abs=1e-6)


def findings(found: list[dict[str, Any]]) -> dict[int, str]:
    lines: dict[int, str] = {}
    for finding in found:
        lines[finding["line"]] = "; ".join(filter(None, (lines.get(finding["line"]), finding["reason"])))
    return lines


def test_sim_01_partial_last_block(shared: Path, simulate: Simulate) -> None:
    case = expected(shared, "SIM-01")
    file = trace(shared, "SIM-01")
    check_hits(simulate(file, "--block-size", case["block_size"]), case["expect"]["engine_like"])
    bound = simulate(file, "--block-size", case["block_size"], "--rules", "lru")
    blocks = case["expect"]["trace_upper_bound_blocks"]
    assert (bound["hit_blocks"], bound["query_blocks"]) == (blocks["hit_blocks"], blocks["blocks"])
    assert bound["block_hit_rate"] == pytest.approx(blocks["rate"], abs=1e-6)


def test_sim_03_leading_run_not_set_membership(shared: Path, simulate: Simulate) -> None:
    case = expected(shared, "SIM-03")
    check_hits(simulate(trace(shared, "SIM-03"), "--block-size", case["block_size"]), case["expect"])


def test_sim_04_malformed_rows(shared: Path, simulate: Simulate, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = expected(shared, "SIM-04")["expect"]["line_verdicts"]
    answer = simulate(trace(shared, "SIM-04"), "--block-size", 512)
    rejected, warned = findings(answer["rejected"]), findings(answer["warnings"])
    for line, verdict in verdicts.items():
        kind, _, reason = verdict.partition(": ")
        kept = {"error": rejected, "skipped": rejected, "warning": warned}.get(kind, {})
        assert kept.get(int(line), "") == reason, line
    assert set(rejected) == {2, 5}
    assert answer["requests"] == 5
    with pytest.raises(SystemExit) as exit_:
        main(["simulate", str(trace(shared, "SIM-04")), "--strict"])
    assert exit_.value.code == 2
    assert "line 2: 2 ids cannot fit 30 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options"), [("input_blocks_only", []), ("with_generated_blocks", ["--outputs"])]
)
def test_sim_07_bailian_sessions(shared: Path, simulate: Simulate, name: str, options: list[str]) -> None:
    case = expected(shared, "SIM-07")
    answer = simulate(trace(shared, "SIM-07"), *options)
    check_hits(answer, case["expect"][name])
    assert answer["block_size"] == case["block_size"]
    assert answer["duration_s"] == pytest.approx(case["expect"]["duration_s"], abs=1e-3)
    assert answer["sessions"] == [[str(chat) for chat in session] for session in case["expect"]["sessions"]]
    assert "parent 99 is outside the file" in findings(answer["warnings"])[3]


@pytest.mark.parametrize("name", ["mooncake_ms.jsonl", "bailian_s.jsonl"])
def test_sim_08_ms_or_s(shared: Path, simulate: Simulate, name: str) -> None:
    expect = expected(shared, "SIM-08")["expect"][name]
    answer = simulate(trace(shared, "SIM-08", name))
    assert answer["arrival_s_per_request"] == pytest.approx(expect["arrivals_s"], abs=1e-3)
    assert answer["block_size"] == expect["block_size_default"]


def test_sim_09_sharegpt_shapes(shared: Path, simulate: Simulate) -> None:
    case = expected(shared, "SIM-09")["expect"]
    answer = simulate(trace(shared, "SIM-09", "sharegpt.json"))
    assert answer["requests"] == case["requests"]
    counts = {session[0].split(",")[0]: len(session) for session in answer["sessions"]}
    assert counts == {name: count for name, count in case["requests_per_conversation"].items() if count}
    skipped = [f"conversation {name} holds no question" for name in case["skipped_conversations"]]
    assert [finding["reason"] for finding in answer["rejected"]] == skipped


@pytest.mark.parametrize("name", ["cumulative", "delta"])
def test_sim_10_cumulative_or_delta_turns(shared: Path, simulate: Simulate, name: str) -> None:
    answer = simulate(trace(shared, "SIM-10", f"{name}.jsonl"), "--turns", name)
    assert answer["query_tokens"] == expected(shared, "SIM-10")["expect"]["total"]
    assert answer["hit_tokens_per_request"] == [0, 0]


def test_sim_11_request_larger_than_the_pool(shared: Path, simulate: Simulate) -> None:
    case = expected(shared, "SIM-11")
    answer = simulate(
        trace(shared, "SIM-11"), "--block-size", case["block_size"], "--pool-blocks", case["capacity_blocks"]
    )
    assert answer["rejected"] == [{"line": 1, "reason": "needs 5 blocks, pool has 3"}]
    assert (answer["requests"], answer["query_tokens"], answer["evicted_blocks"]) == (1, 33, 0)


def test_sim_12_two_prompts_of_33_tokens(simulate: Simulate, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps({"token_ids": list(range(33))}) + "\n" for _ in range(2)))
    answer = simulate(file, "--block-size", 16)
    assert (answer["query_tokens"], answer["hit_tokens"]) == (66, 32)
    assert answer["engine_counters"] == {"unit": "tokens", "queries": 66, "hits": 32}


@pytest.mark.parametrize("rules", ["vllm", "vllm-v0", "sglang", "trtllm", "explicit"])
def test_sim_13_same_seed_same_result(shared: Path, simulate: Simulate, rules: str) -> None:
    """20 runs print the same, and so do other processes with other hash seeds."""
    options = ["--block-size", expected(shared, "SIM-14")["block_size"], "--rules", rules, "--pool-blocks", 8]
    arguments = [str(word) for word in (trace(shared, "SIM-14"), *options)]
    answers = [simulate(*arguments) for _ in range(20)]
    assert all(answer == answers[0] for answer in answers)
    for seed in ("0", "12345"):
        done = subprocess.run(
            [sys.executable, "-m", "hitcurve", "simulate", *arguments, "--per-request", "--json"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert json.loads(done.stdout) == answers[0]


def test_sim_13_same_seed_same_workload(simulate: Simulate) -> None:
    first, again, other = (simulate("F", "--seed", seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_sim_14_adapter_and_salt_isolation(shared: Path, simulate: Simulate) -> None:
    case = expected(shared, "SIM-14")
    answer = simulate(trace(shared, "SIM-14"), "--block-size", case["block_size"])
    check_hits(answer, case["expect"])
    assert answer["miss_tokens"]["isolated"] == 3 * 48
    assert answer["isolated_by"] == {"adapter": 96, "salt": 48, "image": 0}


def test_sim_15_pool_blocks_are_usable_blocks(simulate: Simulate, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    rows = [{"hash_ids": [1, 2, 3, 4], "input_length": 64}, {"hash_ids": [1, 2, 3], "input_length": 48}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert simulate(file, "--block-size", 16, "--pool-blocks", 4)["requests"] == 2
    answer = simulate(file, "--block-size", 16, "--pool-blocks", 3)
    assert answer["rejected"] == [{"line": 1, "reason": "needs 4 blocks, pool has 3"}]
    assert answer["requests"] == 1


def test_sim_18_file_oddities(shared: Path, simulate: Simulate, capsys: pytest.CaptureFixture[str]) -> None:
    case = expected(shared, "SIM-18")
    expect = case["expect"]["oddities.jsonl"]
    answer = simulate(trace(shared, "SIM-18", "oddities.jsonl"), "--block-size", case["block_size"])
    assert answer["requests"] == expect["rows_read"]
    assert answer["hit_tokens_per_request"] == expect["hit_tokens"]
    assert [finding["line"] for finding in answer["rejected"]] == expect["bad_lines"]
    with pytest.raises(SystemExit) as exit_:
        main(["simulate", str(trace(shared, "SIM-18", "lfs_pointer.jsonl"))])
    assert exit_.value.code == 2
    assert case["expect"]["lfs_pointer.jsonl"]["error"] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "requests", "hits", "queries", "hit_blocks", "blocks"),
    [
        ("conversation", 12031, 54063104, 144793823, 105710, 288500),
        ("synthetic", 3993, 39802880, 61194628, 77953, 121877),
    ],
)
def test_sim_19_public_traces_unlimited_pool(
    shared: Path,
    simulate: Simulate,
    name: str,
    requests: int,
    hits: int,
    queries: int,
    hit_blocks: int,
    blocks: int,
) -> None:
    file = shared / "traces" / f"mooncake_fast25_{name}_trace.jsonl"
    engine = simulate(file, "--rules", "vllm", "--pool-blocks", "unlimited")
    assert (engine["requests"], engine["hit_tokens"], engine["query_tokens"]) == (requests, hits, queries)
    bound = simulate(file, "--rules", "lru", "--pool-blocks", "unlimited")
    assert (bound["hit_blocks"], bound["query_blocks"]) == (hit_blocks, blocks)
