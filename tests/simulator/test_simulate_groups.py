"""``hitcurve simulate --groups``: vLLM's rules for windows and several groups, on workloads and traces."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hitcurve.errors import UsageError
from hitcurve_simulator.simulate.command import app


def simulated(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "--json", "--per-request"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("workload", ["B", "F"])
def test_one_group_of_full_attention_is_the_plain_rules(workload: str) -> None:
    plain, grouped = simulated(workload), simulated(workload, "--groups", "full:16")
    for name in ("hit_tokens_per_request", "evicted_blocks", "engine_counters", "query_tokens"):
        assert grouped[name] == plain[name]
    assert grouped["miss_tokens"] == {reason: tokens for reason, tokens in plain["miss_tokens"].items() if tokens}
    assert (workload == "F") == (grouped["evicted_blocks"] > 0)


def test_a_short_shared_prefix_of_a_hybrid_model_never_hits(tmp_path: Path) -> None:
    """48 shared tokens: with common blocks of 32 they hit 32, with 64 nothing, and the reason is the tail."""
    trace = tmp_path / "trace.jsonl"
    rows = [
        {"token_ids": [*range(48), 100 + number], "lora": lora} for number, lora in enumerate((None, None, "a"))
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--block-size", "16", "--groups")
    half = simulated(str(trace), *options, "full:32,40:16")
    assert half["hit_tokens_per_request"] == [0, 32, 0]
    assert half["miss_tokens"] == {"compulsory": 32, "tail": 51, "isolated": 32}
    none = simulated(str(trace), *options, "full:64,40:16")
    assert (none["hit_tokens"], none["minimum_reusable_prefix_tokens"]) == (0, 64)
    assert none["miss_tokens"] == {"tail": 147}
    assert none["groups"] == ["full:64", "40:16"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--groups", "half:16"], "--groups: 'half:16' is no group such as full:32, or 128:16 for a window"),
        (["--groups", "full:16", "--rules", "sglang"], "--groups is for the rules 'vllm'; the rules 'sglang'"),
        (["--groups", "full:24,128:8"], "--groups has blocks that share 8 tokens and the trace has blocks of 16;"),
        (["--groups", "full:16", "--version", "0.18.1"], "--groups: no rules for groups of vLLM 0.18.1"),
    ],
)
def test_groups_that_cannot_be(arguments: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(app, ["A", *arguments], catch_exceptions=False)
    assert str(error.value).startswith(sentence)
