"""Block hashes against a table computed by vLLM 0.32.0 (``golden_block_hashes.json``).

``tests/real_vllm/vllm_block_hashes.py --golden`` made the table; its docstring says how to make it anew.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve.hashing import (
    ALGORITHMS,
    Adapter,
    Image,
    block_hash,
    block_hashes,
    extra_keys,
    hash_function,
    none_hash,
)

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "golden_block_hashes.json").read_text())
CASES: list[dict[str, Any]] = TABLE["cases"]


def test_the_table_covers_every_algorithm_and_key_kind() -> None:
    assert {case["algorithm"] for case in CASES} == set(ALGORITHMS)
    assert len(CASES) == 30
    assert all(len(case["hashes"]) == 2 for case in CASES)
    for algorithm in ALGORITHMS:
        seeded = [case for case in CASES if case["algorithm"] == algorithm and case["python_hash_seed"] == "0"]
        assert len({case["hashes"][1] for case in seeded}) == 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['algorithm']}-{case['python_hash_seed']}")
def test_hashes_are_those_of_vllm(case: dict[str, Any]) -> None:
    root = none_hash(case["algorithm"], case["python_hash_seed"])
    hashes = block_hashes(
        TABLE["token_ids"],
        TABLE["block_size"],
        case["algorithm"],
        root,
        adapter=Adapter(*case["adapter"]) if case["adapter"] else None,
        salt=case["salt"],
        images=[Image(*image) for image in case["images"]],
    )
    assert root.hex() == case["root"]
    assert [value.hex() for value in hashes] == case["hashes"]


def test_one_string_for_name_and_path_hashes_like_two_equal_ones() -> None:
    text = "adapter"
    shared = extra_keys(0, 16, adapter=Adapter(text, text))
    apart = extra_keys(0, 16, adapter=Adapter("adapter", "".join(["adap", "ter"])))
    function = hash_function("sha256")
    assert block_hash(function, b"parent", range(16), shared) == block_hash(function, b"parent", range(16), apart)


def test_the_root_is_random_where_vllm_makes_it_random() -> None:
    def fixed(count: int) -> bytes:
        return bytes(range(count))

    assert none_hash("sha256", version=(0, 28), random_bytes=fixed) == bytes(range(32))
    assert none_hash("xxhash", version=(0, 28), random_bytes=fixed) == bytes(range(32))
    assert none_hash("xxhash", random_bytes=fixed) == hash_function("xxhash")(bytes(range(32)).hex())
    assert none_hash("sha256", random_bytes=fixed) == none_hash("sha256")
    assert none_hash("xxhash") != none_hash("xxhash")
    assert none_hash("sha256", "7", version=(0, 28)) == none_hash("sha256", "7") != none_hash("sha256", "8")


def test_extra_keys_change_their_form_with_the_version() -> None:
    def keys(version: tuple[int, ...]) -> tuple[object, ...] | None:
        return extra_keys(
            0,
            16,
            adapter=Adapter("sql", "/adapters/sql", 3),
            salt="tenant-a",
            images=[Image("image-1", 4, 8)],
            version=version,
        )

    tagged = (("lora", "sql", "/adapters/sql"), ("mm", "image-1", 4), ("cache_salt", "tenant-a"))
    assert keys((0, 32)) == keys((0, 31)) == tagged
    assert keys((0, 30, 2)) == ("sql", ("image-1", 4), "tenant-a")
    assert keys((0, 18)) == keys((0, 11, 1)) == ("sql", "image-1", "tenant-a")
    assert keys((0, 11, 0)) == keys((0, 10, 2)) == (3, "image-1", "tenant-a")


def test_extra_keys_only_where_they_apply() -> None:
    images = [Image("image-1", 4, 18), Image("image-2", 40, 8)]
    assert extra_keys(0, 16, images=images) == (("mm", "image-1", 4),)
    assert extra_keys(16, 32, images=images) == (("mm", "image-1", -12),)
    assert extra_keys(22, 40, images=images) is None
    assert extra_keys(16, 32, salt="tenant-a") is None
    assert extra_keys(0, 16, salt="") is None


def test_a_partial_last_block_has_no_hash() -> None:
    root = none_hash("sha256")
    assert block_hashes(range(15), 16, "sha256", root) == []
    assert len(block_hashes(range(16), 16, "sha256", root)) == 1
    assert block_hashes(range(33), 16, "sha256", root)[:1] == block_hashes(range(16), 16, "sha256", root)
    assert len(block_hashes(range(33), 16, "sha256", root)) == 2


def test_wrong_use_is_told_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="there is no hash algorithm 'md5'; vLLM has sha256, sha256_cbor"):
        hash_function("md5")
    with pytest.raises(
        UsageError, match=r"before 0\.11\.1 keys adapters by number; give adapter 'sql' its number"
    ):
        extra_keys(0, 16, adapter=Adapter("sql"), version=(0, 11, 0))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(UsageError, match=r"'xxhash' needs the package 'xxhash'; .*'hitcurve\[simulator\]'"):
        hash_function("xxhash")


def test_sha256_needs_no_third_party_package() -> None:
    source = "import sys; sys.modules['cbor2'] = sys.modules['xxhash'] = None; import hitcurve.hashing as h"
    program = f"{source}; print(h.none_hash('sha256', '0').hex())"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == next(case["root"] for case in CASES if case["algorithm"] == "sha256")
