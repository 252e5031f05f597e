"""The simulator's cases that concern the estimator, through ``hitcurve estimate --json``."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

Estimate = Callable[..., dict[str, Any]]


@pytest.fixture
def estimate(capsys: pytest.CaptureFixture[str]) -> Estimate:
    """Runs ``hitcurve estimate`` and gives what it prints."""

    def run(*arguments: object) -> dict[str, Any]:
        with pytest.raises(SystemExit) as exit_:
            main(["estimate", *map(str, arguments), "--json"])
        printed = capsys.readouterr()
        assert exit_.value.code == 0, printed.err
        answer: dict[str, Any] = json.loads(printed.out)
        for shares in answer["shares"]:
            fates = (shares[name] for name in ("hit", "compulsory", "capacity", "isolated", "tail"))
            assert sum(fates) == answer["query_tokens"]
        return answer

    return run


def expected(shared: Path, case: str) -> Any:
    return json.loads((shared / "cases" / case / "expected.json").read_text())["expect"]


def engine_like(answer: dict[str, Any]) -> float:
    rate: float = answer["ceiling"]["engine_like"]["token"]
    return rate


def test_sim_01_two_names_for_two_numbers(shared: Path, estimate: Estimate) -> None:
    expect = expected(shared, "SIM-01")
    answer = estimate(shared / "cases/SIM-01/trace.jsonl", "--block-size", 512)
    assert engine_like(answer) == pytest.approx(expect["engine_like"]["hit_rate"], abs=1e-6)
    assert answer["ceiling"]["block"] == pytest.approx(expect["trace_upper_bound_blocks"]["rate"], abs=1e-6)
    assert answer["ceiling"]["definition"].startswith("all blocks")
    assert answer["ceiling"]["engine_like"]["definition"].startswith("engine-like")


def test_sim_03_leading_run_not_set_membership(shared: Path, estimate: Estimate) -> None:
    answer = estimate(shared / "cases/SIM-03/trace.jsonl", "--block-size", 16)
    assert engine_like(answer) == pytest.approx(expected(shared, "SIM-03")["hit_rate"], abs=1e-6)


def test_sim_04_malformed_rows(shared: Path, estimate: Estimate) -> None:
    answer = estimate(shared / "cases/SIM-04/trace.jsonl", "--block-size", 512)
    assert [(found["line"], found["reason"]) for found in answer["rejected"]] == [
        (2, "2 ids cannot fit 30 tokens"),
        (5, "empty prompt"),
    ]
    assert answer["skipped_rows"] == 2
    assert {found["line"] for found in answer["warnings"]} == {3, 4, 6}


@pytest.mark.parametrize(
    ("name", "options"), [("input_blocks_only", []), ("with_generated_blocks", ["--outputs"])]
)
def test_sim_07_bailian_sessions(shared: Path, estimate: Estimate, name: str, options: list[str]) -> None:
    expect = expected(shared, "SIM-07")[name]
    answer = estimate(shared / "cases/SIM-07/trace.jsonl", *options)
    assert (answer["formats"], answer["block_size"]) == (["bailian"], 16)
    assert engine_like(answer) == pytest.approx(expect["hit_rate"], abs=1e-6)
    assert answer["query_tokens"] == expect["prompt_tokens"]
    assert "parent 99 is outside the file" in answer["warnings"][0]["reason"]


@pytest.mark.parametrize("name", ["mooncake_ms.jsonl", "bailian_s.jsonl"])
def test_sim_08_each_format_has_its_block_size(shared: Path, estimate: Estimate, name: str) -> None:
    answer = estimate(shared / "cases/SIM-08" / name)
    assert answer["block_size"] == expected(shared, "SIM-08")[name]["block_size_default"]


def test_sim_09_sharegpt_shapes(shared: Path, estimate: Estimate) -> None:
    expect = expected(shared, "SIM-09")
    answer = estimate(shared / "cases/SIM-09/sharegpt.json", "--tokenizer", "bytes")
    assert answer["requests"] == expect["requests"]
    skipped = [f"conversation {name} holds no question" for name in expect["skipped_conversations"]]
    assert [found["reason"] for found in answer["rejected"]] == skipped
    assert answer["skipped_rows"] == len(skipped)


def test_sim_10_cumulative_or_delta_turns(shared: Path, estimate: Estimate) -> None:
    answers = [
        estimate(shared / f"cases/SIM-10/{name}.jsonl", "--turns", name) for name in ("cumulative", "delta")
    ]
    total = expected(shared, "SIM-10")["total"]
    assert [answer["query_tokens"] for answer in answers] == [total, total]
    assert engine_like(answers[0]) == engine_like(answers[1]) == 0.0


def test_sim_11_requests_larger_than_the_pool_are_counted(shared: Path, estimate: Estimate) -> None:
    answer = estimate(shared / "cases/SIM-11/trace.jsonl", "--block-size", 16, "--pool-blocks", 3)
    assert [point["requests_larger_than_pool"] for point in answer["curve"]] == [1]


def test_sim_14_adapter_and_salt_isolation(shared: Path, estimate: Estimate) -> None:
    answer = estimate(shared / "cases/SIM-14/trace.jsonl", "--block-size", 16)
    assert engine_like(answer) == pytest.approx(expected(shared, "SIM-14")["hit_rate"], abs=1e-6)
    assert answer["shares"][-1]["isolated"] == 3 * 48
    ceilings = {tuple(one["isolated_by"]): one["pools"][-1]["engine_like_hit_rate"] for one in answer["isolation"]}
    # Of seven prompts of 49 tokens six find 48 where nothing is kept apart; each further group misses one more.
    assert ceilings == {
        ("adapter", "salt"): pytest.approx(3 * 48 / 343),
        (): pytest.approx(6 * 48 / 343),
        ("adapter",): pytest.approx(4 * 48 / 343),
        ("salt",): pytest.approx(5 * 48 / 343),
    }


def test_sim_18_file_oddities(shared: Path, estimate: Estimate, capsys: pytest.CaptureFixture[str]) -> None:
    expect = expected(shared, "SIM-18")
    answer = estimate(shared / "cases/SIM-18/oddities.jsonl", "--block-size", 16)
    assert answer["requests"] == expect["oddities.jsonl"]["rows_read"]
    assert [found["line"] for found in answer["rejected"]] == expect["oddities.jsonl"]["bad_lines"]
    assert answer["shares"][-1]["hit"] == sum(expect["oddities.jsonl"]["hit_tokens"])
    with pytest.raises(SystemExit) as exit_:
        main(["estimate", str(shared / "cases/SIM-18/lfs_pointer.jsonl")])
    assert exit_.value.code == 2
    assert expect["lfs_pointer.jsonl"]["error"] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "requests", "hits", "queries", "hit_blocks", "blocks", "pools"),
    [
        (
            "conversation",
            12031,
            54063104,
            144793823,
            105710,
            288500,
            {5859: (0.1361, 0.1387), 97656: (0.3635, 0.3707)},
        ),
        (
            "synthetic",
            3993,
            39802880,
            61194628,
            77953,
            121877,
            {5859: (0.3094, 0.3151), 97656: (0.6396, 0.6512)},
        ),
    ],
)
def test_sim_19_public_traces(
    shared: Path,
    estimate: Estimate,
    name: str,
    requests: int,
    hits: int,
    queries: int,
    hit_blocks: int,
    blocks: int,
    pools: dict[int, tuple[float, float]],
) -> None:
    file = shared / "traces" / f"mooncake_fast25_{name}_trace.jsonl"
    answer = estimate(file, *(word for pool in pools for word in ("--pool-blocks", pool)))
    assert (answer["requests"], answer["query_tokens"], answer["query_blocks"]) == (requests, queries, blocks)
    assert engine_like(answer) == pytest.approx(hits / queries, abs=1e-12)
    assert answer["ceiling"]["block"] == pytest.approx(hit_blocks / blocks, abs=1e-12)
    rates = {
        point["pool_blocks"]: (round(point["block_hit_rate"], 4), round(point["hit_rate"], 4))
        for point in answer["curve"]
    }
    assert rates == pools


@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_sim_19_the_curve_is_what_simulate_finds_at_a_size(
    shared: Path, estimate: Estimate, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(shared / "traces" / f"mooncake_fast25_{name}_trace.jsonl")
    (point,) = estimate(file, "--pool-blocks", 7777)["curve"]
    with pytest.raises(SystemExit):
        main(["simulate", file, "--rules", "lru", "--pool-blocks", "7777", "--json"])
    direct = json.loads(capsys.readouterr().out)
    assert (point["hit_rate"], point["block_hit_rate"]) == (direct["hit_rate"], direct["block_hit_rate"])


def test_agent_sessions_of_the_public_sample(shared: Path, estimate: Estimate, tmp_path: Path) -> None:
    """60 sessions, the next starting 60 s after the one before: values of an independent script."""
    with tarfile.open(shared / "traces" / "kv_cache_tester_sample60.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    answer = estimate(tmp_path / "traces", "--pool-blocks", 4096, "--pool-blocks", 65536)
    assert (answer["requests"], answer["block_size"]) == (1965, 64)
    assert round(answer["ceiling"]["block"], 5) == 0.94384
    assert round(answer["ceiling"]["token"], 5) == 0.94351
    assert [round(point["hit_rate"], 5) for point in answer["curve"]] == [0.32255, 0.94200]


@pytest.mark.parametrize(("name", "rate"), [("conversation", 0.3981), ("synthetic", 0.8627)])
def test_the_last_half_of_the_public_traces(shared: Path, estimate: Estimate, name: str, rate: float) -> None:
    answer = estimate(shared / "traces" / f"mooncake_fast25_{name}_trace.jsonl", "--warm-up", 0.5)
    assert round(answer["ceiling"]["token"], 4) == rate
