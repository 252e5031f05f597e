"""Block hashes by vLLM's own code; runs in the environment of a real vLLM, not in ours.

Reads a JSON list of cases on stdin and prints one result for each on stdout::

    {"algorithm", "python_hash_seed": str | null, "block_size", "token_ids",
     "adapter": [name, path] | null, "salt": str | null, "images": [[identifier, offset, length]]}
    {"root": hex, "hashes": [hex]}

``--golden`` computes the committed table instead. To regenerate it, from the root of the checkout::

    PYTHONPATH=FOLDER_WITH_XXHASH .venv-vllm/bin/python tests/real_vllm/vllm_block_hashes.py --golden \
        > tests/core/golden_block_hashes.json

(vLLM does not ship xxhash; ``pip install --target FOLDER_WITH_XXHASH xxhash`` brings it.)
"""

import json
import os
import sys
from typing import Any

GOLDEN_KEYS: list[dict[str, Any]] = [
    {"adapter": None, "salt": None, "images": []},
    {"adapter": ["sql", "/adapters/sql"], "salt": None, "images": []},
    {"adapter": ["same", "same"], "salt": "tenant-a", "images": []},
    {"adapter": None, "salt": None, "images": [["image-1", 4, 18], ["image-2", 22, 6]]},
    {"adapter": ["sql", "/adapters/sql"], "salt": "tenant-a", "images": [["image-1", 4, 18]]},
]


def hashes_of(case: dict[str, Any]) -> dict[str, Any]:
    """The result of one case."""
    from vllm.lora.request import LoRARequest
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.request import Request

    if case["python_hash_seed"] is None:
        os.environ.pop("PYTHONHASHSEED", None)
    else:
        os.environ["PYTHONHASHSEED"] = case["python_hash_seed"]
    function = get_hash_fn_by_name(case["algorithm"])
    kv_cache_utils.init_none_hash(function)
    adapter = case["adapter"]
    request = Request(
        request_id="r",
        prompt_token_ids=case["token_ids"],
        sampling_params=SamplingParams(max_tokens=1),
        pooling_params=None,
        lora_request=None if adapter is None else LoRARequest(adapter[0], 1, adapter[1]),
        cache_salt=case["salt"],
        mm_features=[
            MultiModalFeatureSpec(None, "image", identifier, PlaceholderRange(offset=offset, length=length))
            for identifier, offset, length in case["images"]
        ],
        block_hasher=kv_cache_utils.get_request_block_hasher(case["block_size"], function),
    )
    return {"root": kv_cache_utils.NONE_HASH.hex(), "hashes": [value.hex() for value in request.block_hashes]}


def golden_table() -> dict[str, Any]:
    """All algorithms, with and without seed, over every kind of key; unset seeds only where they are fixed."""
    import vllm

    modes = [
        *((algorithm, "0") for algorithm in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")),
        *((algorithm, None) for algorithm in ("sha256", "sha256_cbor")),
    ]
    prompt = {"block_size": 16, "token_ids": [(7 * position * position + 3) % 128256 for position in range(40)]}
    rows = [
        {"algorithm": algorithm, "python_hash_seed": seed, **keys}
        for algorithm, seed in modes
        for keys in GOLDEN_KEYS
    ]
    # A detour over JSON makes every string an object of its own, as in a request that came over the wire.
    cases = [{**row, **hashes_of(json.loads(json.dumps({**prompt, **row})))} for row in rows]
    return {"vllm": vllm.__version__, **prompt, "cases": cases}


def main() -> None:
    """Answer stdin, or print the golden table."""
    if "--golden" in sys.argv[1:]:
        table = golden_table()
        cases = ",\n".join(json.dumps(case) for case in table.pop("cases"))
        print(json.dumps(table)[:-1] + f', "cases": [\n{cases}\n]}}')
    else:
        json.dump([hashes_of(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
