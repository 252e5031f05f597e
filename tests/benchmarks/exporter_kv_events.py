"""What following KV events costs: ``python tests/benchmarks/exporter_kv_events.py [--batches 2000]``.

A batch stores the 64 blocks of a prompt of 1,024 tokens and removes as many of the oldest, as vLLM 0.32 writes it.
The pool holds 32,000 blocks. Prints the CPU time of a batch and of a block, and the memory of the table.
"""

import argparse
import json
import statistics
import time
import tracemalloc

import msgspec

from hitcurve_exporter.kv_events.block_table import BlockTable
from hitcurve_exporter.kv_events.stream import KvStream

BLOCKS = 64
BLOCK_SIZE = 16
POOL_BATCHES = 500


def block_hash(number: int) -> bytes:
    return number.to_bytes(32, "big")


def payload(number: int) -> bytes:
    """One batch: a prompt's blocks in, the blocks of a prompt of long ago out."""
    hashes = [block_hash(number * BLOCKS + place) for place in range(BLOCKS)]
    events: list[object] = [
        {
            "type": "BlockStored",
            "block_hashes": hashes,
            "parent_block_hash": None,
            "token_ids": list(range(50_000, 50_000 + BLOCKS * BLOCK_SIZE)),
            "block_size": BLOCK_SIZE,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            "group_idx": 0,
        }
    ]
    if number >= POOL_BATCHES:
        gone = (number - POOL_BATCHES) * BLOCKS
        events += [
            {"type": "BlockRemoved", "block_hashes": [block_hash(gone + place)], "medium": "GPU", "group_idx": 0}
            for place in range(BLOCKS)
        ]
    return msgspec.msgpack.encode([float(number), events, 0])


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=2_000)
    chosen = parser.parse_args()
    payloads = [payload(number) for number in range(POOL_BATCHES + chosen.batches)]
    stream = KvStream(BlockTable())
    tracemalloc.start()
    for number in range(POOL_BATCHES):
        stream.take(number, payloads[number], 1.0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    spent = []
    for number in range(POOL_BATCHES, len(payloads)):
        began = time.process_time()
        stream.take(number, payloads[number], 1.0)
        spent.append(time.process_time() - began)
    live = stream.table.live["device"]
    assert (live.blocks, live.duplicate_blocks, stream.table.unmatched_removals) == (POOL_BATCHES * BLOCKS, 0, 0)
    batch_s = statistics.median(spent)
    result = {
        "batches": chosen.batches,
        "batch_us": round(1e6 * batch_s, 1),
        "block_stored_and_removed_us": round(1e6 * batch_s / BLOCKS, 2),
        "live_blocks": live.blocks,
        "bytes_per_live_block": round(held / live.blocks),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
