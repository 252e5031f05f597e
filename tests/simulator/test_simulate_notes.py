"""``hitcurve simulate``: what only some rules can tell, and options that do not apply to them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hitcurve.cli import main

TOKENS = list(range(1, 10))
ROWS = [
    {"token_ids": TOKENS, "extra_key": "tenant-", "lora": "1a"},
    {"token_ids": TOKENS, "extra_key": "tenant-1", "lora": "a"},
    {"token_ids": TOKENS, "cache_salt": "tenant-1"},
]
Call = Callable[..., tuple[str, str]]


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Runs ``hitcurve simulate`` on the rows; stdout and stderr."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def run(*options: object) -> tuple[str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(["simulate", str(trace), *map(str, options)])
        printed = capsys.readouterr()
        assert exit_.value.code == 0, printed.err
        return printed.out, printed.err

    return run


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        (["vllm", "--block-size", 4], []),
        (
            ["sglang", "--page-size", 1],
            [
                "Finding: one namespace for requests that should be kept apart: extra_key 'tenant-', lora '1a'; "
                "extra_key 'tenant-1', lora 'a' (docs/engines.md)."
            ],
        ),
        (["vllm-v0", "--block-size", 4], ["Requests whose salt is ignored, since V0 knows none: 1."]),
        (["lru", "--block-size", 4], ["Of 9 blocks 0 were hit (0.0000%)."]),
        (
            ["trtllm", "--block-size", 4],
            ["These rules follow source or description and were never compared with the real thing."],
        ),
        (
            ["explicit", "--block-size", 4, "--minimum-tokens", 4, "--prices", "1.25,2,0.1"],
            [
                "Billed tokens: read 0, written for 5m 24, written for 1h 0, plain 3.",
                "Cost: 33 plain tokens, 122.2% of 27 without a cache.",
                "These rules follow source or description and were never compared with the real thing.",
            ],
        ),
    ],
)
def test_the_table_ends_in_what_only_these_rules_tell(
    options: list[object], notes: list[str], simulate: Call
) -> None:
    out, err = simulate("--rules", *options)
    told = out.split(" blocks evicted")[1].splitlines()[1:]
    assert (told, err) == (notes, "")


def test_settings_that_the_rules_do_not_have_are_told_and_not_claimed(simulate: Call) -> None:
    out, err = simulate("--rules", "explicit", "--pool-blocks", 5, "--concurrency", 2, "--outputs", "--json")
    answer = json.loads(out)
    assert (answer["pool_blocks"], answer["concurrency"], answer["outputs"]) == (None, 1, False)
    assert err.splitlines() == [
        f"hitcurve: {option} changes nothing, since the rules 'explicit' do not know it."
        for option in ("--pool-blocks", "--concurrency", "--outputs")
    ]
    out, err = simulate("--rules", "lru", "--block-size", 4, "--pool-blocks", 5, "--concurrency", 2, "--json")
    answer = json.loads(out)
    assert (answer["pool_blocks"], answer["concurrency"]) == (5, 1)
    assert err == "hitcurve: --concurrency changes nothing, since the rules 'lru' do not know it.\n"
    assert "no pool, blocks of 16 tokens" in simulate("--rules", "explicit")[0]
