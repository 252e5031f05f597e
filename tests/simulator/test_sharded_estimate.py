"""The estimate in shards equals the one in one piece, to the last digit; on a real Ray cluster as well."""

import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.cli import main
from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_simulator.estimate.answer import answer
from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.estimate import Estimator
from hitcurve_simulator.estimate.question import Question
from hitcurve_simulator.estimate.reuse import reuse_of
from hitcurve_simulator.estimate.traffic import Reading, load_traffic
from hitcurve_simulator.sharded.ray_workers import RayWorkers
from hitcurve_simulator.sharded.sharded_estimate import sharded_estimator
from hitcurve_simulator.sharded.sharded_reuse import sharded_reuse
from hitcurve_simulator.sharded.workers import Here
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name
from hitcurve_simulator.vllm import Request

BLOCK = 4
QUESTION = Question(
    pools=(3, 40), memory=None, block_sizes=(), split="session", replicas=3, seed=1, breaks=False, every=True
)

prompts = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=18), min_size=1, max_size=30)


@given(prompts, st.integers(1, 5))
def test_reuse_in_shards_is_reuse(drawn: list[list[int]], shards: int) -> None:
    rows = [TraceRow(number, Request(f"r{number}", prompt)) for number, prompt in enumerate(drawn)]
    chains = chains_of(rows, BLOCK, BLOCK)
    for accesses in (chains.bound, chains.engine):
        one, other = reuse_of(accesses), sharded_reuse(accesses, Here(shards))
        assert one.distinct_blocks == other.distinct_blocks
        for name in ("requests", "nearest", "lengths", "ends_chain", "earlier"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def hash_rows(dice: random.Random) -> list[Any]:
    rows: list[Any] = [
        {
            "hash_ids": [f"s{dice.randrange(3)}", dice.randrange(3), dice.randrange(9), 10**30][
                : dice.randrange(1, 5)
            ],
            "timestamp": dice.randrange(1000),
            "lora": dice.choice([None, "a"]),
            "tenant": dice.choice(["x", "y"]),
        }
        for _ in range(60)
    ]
    rows[7] = {"hash_ids": 5}
    rows[20] = "no object"
    rows[30] = {"hash_ids": [1], "input_length": 5000}
    return rows


def chat_rows(dice: random.Random) -> list[Any]:
    rows: list[Any] = []
    for number in range(60):
        parent = dice.randrange(number) if number and dice.random() < 0.7 else -1
        before = rows[parent]["hash_ids"] if parent >= 0 else []
        ids = [*before, 100 * number, 100 * number + 1]
        length = 16 * len(ids) - dice.randrange(16)
        rows.append(
            {
                "chat_id": number if dice.random() < 0.95 else 3,
                "parent_chat_id": parent if dice.random() < 0.9 else 10_000,
                "timestamp": number + 0.5,
                "input_length": length,
                "output_length": dice.randrange(40),
                "hash_ids": ids,
            }
        )
    return rows


def text_rows(dice: random.Random) -> list[Any]:
    return [
        {
            "messages": [
                {"role": "user", "content": "the same " * dice.randrange(1, 30) + str(dice.randrange(9))}
            ],
            "user": f"u{dice.randrange(3)}",
            "cache_salt": dice.choice(["", "red"]),
        }
        for _ in range(40)
    ]


def written(file: Path, rows: list[Any]) -> Path:
    lines = [json.dumps(row) for row in rows]
    lines.insert(5, "{broken")
    lines.insert(9, "")
    file.write_text("\n".join(lines))
    return file


def answers(
    files: list[Path], workers: Here, tokenizer: str = "pieces", **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the estimate in one piece and of the one in shards."""
    names = list(map(str, files))

    def reading() -> Reading:
        return Reading(tokenizer=tokenizer_by_name(tokenizer))

    local = answer(Estimator(load_traffic(names, reading()), **options), QUESTION)
    sharded = answer(sharded_estimator(names, reading(), tokenizer, workers, **options), QUESTION)
    # Only where prompts are kept can breaks be looked for.
    breaks = "where reuse breaks was not looked for; --breaks does"
    for found in (local, sharded):
        found["notes"] = [note for note in found["notes"] if note != breaks]
    return local, sharded


@pytest.mark.parametrize("options", [{}, {"warm_up": 0.4}, {"outputs": True}])
@pytest.mark.parametrize("rows", [hash_rows, chat_rows, text_rows])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_whole_answer_is_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: Callable[[random.Random], list[Any]],
    options: dict[str, Any],
    workers: int,
) -> None:
    monkeypatch.setattr("hitcurve_simulator.sharded.sharded_estimate.PART_BYTES", 700)
    file = written(tmp_path / "trace.jsonl", rows(random.Random(1)))
    local, sharded = answers([file], Here(workers), **options)
    assert local["skipped_rows"] >= 1
    assert sharded == local


def test_several_files_and_other_tokenizers(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{seed}.jsonl", hash_rows(random.Random(seed))) for seed in (1, 2)]
    local, sharded = answers(files, Here(2))
    assert sharded == local
    file = written(tmp_path / "text.jsonl", text_rows(random.Random(3)))
    local, sharded = answers([file], Here(2), tokenizer="bytes")
    assert sharded == local


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"hash_ids": 5}\n{"hash_ids": 6}\n')
    with pytest.raises(UsageError, match=r"trace.jsonl, line 1: hash_ids is not a list; correct or remove"):
        sharded_estimator([str(file)], Reading(), "pieces", Here())


def test_a_ray_cluster_of_two_workers_gives_the_same_answer(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("the package ray is not installed: pip install 'hitcurve[ray]'")
    file = written(tmp_path / "trace.jsonl", hash_rows(random.Random(1)) * 40)
    command = [sys.executable, "-m", "hitcurve", "estimate", str(file), "--pool-blocks", "20", "--json"]
    local = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    ray = [*command, "--engine", "ray", "--workers", "2"]
    sharded = subprocess.run(ray, capture_output=True, text=True, timeout=120, check=False)
    assert (sharded.returncode, sharded.stderr) == (0, "")
    assert json.loads(sharded.stdout) == json.loads(local.stdout)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'hitcurve\[ray\]'"), RayWorkers(count=2):
        pass


def test_a_cluster_that_does_not_answer_is_given_up_at_once() -> None:
    with (
        pytest.raises(EnvironmentFailed, match=r"no Ray cluster answers at 127.0.0.1:1 "),
        RayWorkers("127.0.0.1:1"),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--engine", "spark"), "--engine is 'spark'; give local or ray"),
        (("--engine", "ray", "--breaks"), "--engine ray keeps no prompts"),
        (("--workers", "2"), "--ray-address and --workers are for --engine ray"),
    ],
)
def test_wrong_use_of_shards_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], sentence: str
) -> None:
    file = written(tmp_path / "trace.jsonl", hash_rows(random.Random(1)))
    with pytest.raises(SystemExit) as exit_:
        main(["estimate", str(file), *options])
    printed = capsys.readouterr()
    assert (exit_.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1)
    assert sentence in printed.err
