"""Run by the Python of a real vLLM: are the miss reasons those that the whole history of the cache gives?

    PYTHONPATH=engine_patch:. .venv-vllm/bin/python tests/real_vllm/vllm_reason_oracle.py --requests 10000

Random requests, several at a time, with adapters, salts, preemptions, resets and blocks that are taken away
singly, go through vLLM's own cache manager over a small pool. The patch watches it by its hooks. The oracle knows
nothing of the patch: it keeps every KV event that vLLM itself publishes, for ever, and gives each missed token its
reason from them. Prints one JSON line with the tokens by reason, and ends with code 1 where any request differs.
``--ghosts`` is the patch's memory of blocks that are gone, in pools; with too little of it evicted blocks are
forgotten and read ``compulsory``, which the line then counts.

Longer than 300 lines because it runs as one file in the environment of a real vLLM.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus

from hitcurve_engine import plugin

BLOCK = 16
POOL = 48
MOST_RUNNING = 4
FLUSH_EVERY = 200
FLUSH_S = 60.0
REASONS = ("compulsory", "capacity", "reset", "isolated", "tail", "stranded")
Tokens = tuple[int, ...]
Isolation = tuple[str | None, str | None]
Key = tuple[Isolation, Tokens]


@dataclass
class Oracle:
    """Every event since the beginning, and what follows from them for any block."""

    copies: Counter[Key] = field(default_factory=Counter)
    fates: dict[Key, str] = field(default_factory=dict)
    cached_tokens: Counter[Tokens] = field(default_factory=Counter)
    keys: dict[Any, Key] = field(default_factory=dict)

    def take(self, events: list[Any], isolation: Isolation | None) -> None:
        """Events in their order; stored blocks are of a request with this isolation."""
        for event in events:
            if isinstance(event, BlockStored):
                assert isolation is not None
                self._stored(event, isolation)
            elif isinstance(event, BlockRemoved):
                for name in event.block_hashes:
                    self._gone(self.keys[name], 1, "capacity")
            else:
                assert isinstance(event, AllBlocksCleared), event
                for key, copies in list(self.copies.items()):
                    self._gone(key, copies, "reset")

    def _stored(self, event: BlockStored, isolation: Isolation) -> None:
        parent = event.parent_block_hash
        content: Tokens = () if parent is None else self.keys[parent][1]
        for number, name in enumerate(event.block_hashes):
            content = (*content, *event.token_ids[number * BLOCK : (number + 1) * BLOCK])
            key = self.keys[name] = (isolation, content)
            self.copies[key] += 1
            self.cached_tokens[content] += 1

    def _gone(self, key: Key, copies: int, fate: str) -> None:
        self.copies[key] -= copies
        self.cached_tokens[key[1]] -= copies
        assert self.copies[key] >= 0
        if not self.copies[key]:
            del self.copies[key]
            self.fates[key] = fate

    def reasons(self, tokens: Tokens, isolation: Isolation, hit: int) -> dict[str, int]:
        """Of each token that was not found, one by one."""
        prefixes = [tokens[: end + BLOCK] for end in range(0, len(tokens) // BLOCK * BLOCK, BLOCK)]
        cached = [self.copies[isolation, prefix] > 0 for prefix in prefixes]
        reusable = (len(tokens) - 1) // BLOCK
        run = next((place for place, is_cached in enumerate(cached[:reusable]) if not is_cached), reusable)
        assert hit == run * BLOCK, f"vLLM found {hit} tokens, by its own events there are {run * BLOCK}"
        found: Counter[str] = Counter()
        for token in range(hit, len(tokens)):
            block = token // BLOCK
            if block >= reusable:
                found["tail"] += 1
            elif cached[block]:
                found["stranded"] += 1
            elif (isolation, prefixes[block]) in self.fates:
                found[self.fates[isolation, prefixes[block]]] += 1
            else:
                found["isolated" if self.cached_tokens[prefixes[block]] else "compulsory"] += 1
        return {reason: found[reason] for reason in REASONS}


@dataclass
class Expected:
    """What the oracle says of one request at the lookup that was followed by an allocation."""

    query: int
    hit: int
    reasons: dict[str, int]


class Traffic:
    """A manager, its requests, and what is expected of each."""

    def __init__(self, dice: random.Random) -> None:
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=8, dtype=torch.float32)
        group = KVCacheGroupSpec(["layer"], spec)
        self.manager = KVCacheManager(
            KVCacheConfig(num_blocks=POOL + 1, kv_cache_tensors=[], kv_cache_groups=[group]),
            max_model_len=4096,
            scheduler_block_size=BLOCK,
            hash_block_size=BLOCK,
            enable_kv_cache_events=True,
            log_stats=True,
        )
        self.hasher = get_request_block_hasher(BLOCK, sha256)
        self.dice = dice
        self.oracle = Oracle()
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.expected: dict[str, Expected] = {}
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        """One of the things that happen to a cache."""
        roll = self.dice.random()
        if roll < 0.55:
            self.waiting.append(self.arrive())
        elif roll < 0.90 and self.running:
            self.finish(self.running.pop(self.dice.randrange(len(self.running))))
        elif roll < 0.94 and self.running:
            self.preempt(self.running.pop(self.dice.randrange(len(self.running))))
        elif roll < 0.97:
            self.manager.evict_blocks({self.dice.randrange(1, POOL + 1) for _ in range(2)})
            self.take(None)
        elif roll < 0.98:
            self.reset()
        while self.waiting and len(self.running) < MOST_RUNNING and self.admit(self.waiting[0]):
            self.running.append(self.waiting.pop(0))

    def arrive(self) -> Request:
        """A prompt of a family, cut anywhere, with an own end or not."""
        family = min(int(self.dice.expovariate(0.3)), 20)
        length = self.dice.randrange(1, 12 * BLOCK)
        tokens = [family * 1000 + place for place in range(length)]
        self.counts["requests"] += 1
        number = self.counts["requests"]
        if self.dice.random() < 0.3:
            tokens += [100_000 + number] * self.dice.randrange(1, 3 * BLOCK)
        adapter, salt = (
            self.dice.choices([None, "a", "b"], [6, 1, 1])[0],
            self.dice.choices([None, "s"], [7, 1])[0],
        )
        return Request(
            request_id=f"r{number}",
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=64),
            pooling_params=None,
            lora_request=LoRARequest(adapter, ord(adapter), f"/{adapter}") if adapter else None,
            cache_salt=salt,
            block_hasher=self.hasher,
        )

    def admit(self, request: Request) -> bool:
        """Look up, then allocate if there is room; only the first success of a request counts."""
        self.counts["lookups"] += 1
        blocks, hit, *_ = self.manager.get_computed_blocks(request)
        expected = None
        if request.request_id not in self.expected:
            reasons = self.oracle.reasons(tuple(request.all_token_ids), isolation_of(request), hit)
            expected = Expected(request.num_tokens, hit, reasons)
        new = request.num_tokens - hit
        allocated = self.manager.allocate_slots(request, new, hit, blocks)
        self.take(request)
        if allocated is None:
            self.counts["lookups in vain"] += 1
            return False
        if expected is not None:
            self.expected[request.request_id] = expected
        request.num_computed_tokens = request.num_tokens
        request.status = RequestStatus.RUNNING
        return True

    def finish(self, request: Request) -> None:
        """Some output first, which fills blocks of its own."""
        for _ in range(self.dice.randrange(0, 40)):
            request.append_output_token_ids(self.dice.randrange(3))
            if self.manager.allocate_slots(request, 1) is None:
                break
            self.take(request)
            request.num_computed_tokens += 1
        request.status = RequestStatus.FINISHED_STOPPED
        self.manager.free(request)

    def preempt(self, request: Request) -> None:
        self.counts["preemptions"] += 1
        self.manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self.waiting.insert(0, request)

    def reset(self) -> None:
        """Refused while anybody runs, as it is by vLLM."""
        if self.dice.random() < 0.5:
            while self.running:
                self.finish(self.running.pop())
        self.counts["resets done" if self.manager.reset_prefix_cache() else "resets refused"] += 1
        self.take(None)

    def take(self, request: Request | None) -> None:
        events = self.manager.take_events()
        self.counts["evicted blocks"] += sum(len(e.block_hashes) for e in events if isinstance(e, BlockRemoved))
        self.oracle.take(events, None if request is None else isolation_of(request))


def isolation_of(request: Request) -> Isolation:
    return (request.lora_request.lora_name if request.lora_request else None, request.cache_salt)


def compare(expected: dict[str, Expected], outcomes: Path) -> tuple[list[str], int]:
    """Requests whose account differs, and tokens that the patch forgot the fate of."""
    wrong, forgotten, seen = [], 0, set()
    for line in outcomes.read_text().splitlines():
        said = json.loads(line)
        if said["kind"] != "request":
            continue
        truth = expected[said["request_id"]]
        seen.add(said["request_id"])
        reasons = {reason: said["miss_tokens"][reason] for reason in REASONS}
        if reasons != truth.reasons or (said["query_tokens"], said["hit_tokens"]) != (truth.query, truth.hit):
            wrong.append(f"{said['request_id']}: {reasons}, by the history {truth.reasons}")
            forgotten += sum(max(truth.reasons[reason] - reasons[reason], 0) for reason in REASONS)
    assert seen == expected.keys(), f"{len(seen)} of {len(expected)} requests were recorded"
    return wrong, forgotten


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ghosts", type=float, help="keys remembered per block; the patch's default unless given")
    parser.add_argument("--gone-keys", type=int, help="of older ones; the patch's default unless given")
    parser.add_argument("--by-tokens", action="store_true", help="as with an engine whose hashes are not known")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes.jsonl"
        os.environ["HITCURVE_OUTCOME_FILE"] = str(outcomes)
        if options.ghosts is not None:
            os.environ["HITCURVE_GHOSTS_PER_BLOCK"] = str(options.ghosts)
        if options.gone_keys is not None:
            os.environ["HITCURVE_GONE_KEYS"] = str(options.gone_keys)
        init_none_hash(sha256)
        plugin.register()
        traffic = Traffic(random.Random(options.seed))
        hooks = plugin.hooks()
        assert hooks is not None
        (recorder,) = hooks.recorders
        if not options.by_tokens:
            # As the hook into the scheduler's constructor does, which there is none of here.
            recorder.describe({"hash_algorithm": "sha256"})
        while traffic.counts["requests"] < options.requests:
            traffic.step()
            if traffic.counts["requests"] % FLUSH_EVERY == 0:
                assert recorder.flush(FLUSH_S)
        while traffic.running or traffic.waiting:
            while traffic.running:
                traffic.finish(traffic.running.pop())
            while traffic.waiting and traffic.admit(traffic.waiting[0]):
                traffic.running.append(traffic.waiting.pop(0))
            assert recorder.flush(FLUSH_S)
        plugin.unregister()
        wrong, forgotten = compare(traffic.expected, outcomes)
    sums = Counter[str]()
    for one in traffic.expected.values():
        sums.update(query=one.query, hit=one.hit, **one.reasons)
    result = {
        **traffic.counts,
        "tokens": dict(sums),
        "requests that differ": len(wrong),
        "tokens that differ": forgotten,
    }
    result |= {"errors": recorder.status.errors, "dropped_events": recorder.probe.dropped}
    print(json.dumps(result))
    if wrong:
        sys.exit("\n".join(wrong[:5]))


if __name__ == "__main__":
    main()
