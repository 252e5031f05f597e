"""Block hashes equal those of a real vLLM on random prompts, keys, algorithms and seeds."""

import importlib.util
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hitcurve.hashing import ALGORITHMS, Adapter, Image, block_hashes, none_hash

pytestmark = pytest.mark.real_vllm

SEED = 20250301
CASES_PER_MODE = 25
ADAPTERS = [None, ["sql", "/adapters/sql"], ["same", "same"], ["a", "a"], ["lora", "mm"], ["köln-ü", "/模型"]]
SALTS = [None, "tenant-a", "cache_salt", "x", "räuber"]


def random_case(dice: random.Random, algorithm: str, python_hash_seed: str | None) -> dict[str, Any]:
    length = dice.randrange(0, 160)
    images = []
    offset = dice.randrange(0, 40)
    while dice.random() < 0.5 and offset < length:
        span = dice.randrange(1, 50)
        images.append([f"image-{dice.randrange(3)}-{len(images)}", offset, span])
        offset += span + dice.randrange(0, 20)
    return {
        "algorithm": algorithm,
        "python_hash_seed": python_hash_seed,
        "block_size": dice.choice([1, 16, 32]),
        "token_ids": [dice.choice([0, 255, 256, 65535, 65536, dice.randrange(256000)]) for _ in range(length)],
        "adapter": dice.choice(ADAPTERS),
        "salt": dice.choice(SALTS),
        "images": images,
    }


def ask_vllm(vllm_python: Path, cases: list[dict[str, Any]], xxhash_folder: Path) -> list[dict[str, Any]]:
    program = Path(__file__).with_name("vllm_block_hashes.py")
    answer = subprocess.run(
        [vllm_python, program],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(xxhash_folder)},
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    results: list[dict[str, Any]] = json.loads(answer.stdout.splitlines()[-1])
    return results


@pytest.fixture
def xxhash_folder(tmp_path: Path) -> Path:
    """A folder with our xxhash only: vLLM makes the package optional and its environment lacks it."""
    found = importlib.util.find_spec("xxhash")
    assert found is not None
    assert found.origin is not None
    (tmp_path / "xxhash").symlink_to(Path(found.origin).parent)
    return tmp_path


def test_hashes_equal_those_of_vllm(vllm_python: Path, xxhash_folder: Path) -> None:
    dice = random.Random(SEED)
    cases = [
        random_case(dice, algorithm, seed)
        for algorithm in ALGORITHMS
        for seed in (None, "0", "random words")
        for _ in range(CASES_PER_MODE)
    ]
    answers = ask_vllm(vllm_python, cases, xxhash_folder)
    assert len(answers) == len(cases)
    roots = set()
    for case, answer in zip(cases, answers, strict=True):
        root = bytes.fromhex(answer["root"])
        random_root = case["algorithm"].startswith("xxhash") and case["python_hash_seed"] is None
        if random_root:
            roots.add(root)
        else:
            assert none_hash(case["algorithm"], case["python_hash_seed"]) == root, case
        hashes = block_hashes(
            case["token_ids"],
            case["block_size"],
            case["algorithm"],
            root,
            adapter=Adapter(*case["adapter"]) if case["adapter"] else None,
            salt=case["salt"],
            images=[Image(*image) for image in case["images"]],
        )
        assert [value.hex() for value in hashes] == answer["hashes"], case
    assert len(roots) == 2 * CASES_PER_MODE, "every initialisation of an xxhash root draws a new one"
    assert sum(len(answer["hashes"]) for answer in answers) > 1000
