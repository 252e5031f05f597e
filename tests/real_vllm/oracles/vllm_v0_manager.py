"""Plays operations on vLLM V0's own block manager (0.8.5); runs in the environment of a real vLLM, not in ours.

Reads one JSON run a line on stdin and writes the list of its answers on stdout, after a line ``ready``::

    {"num_blocks": int, "block_size": int, "watermark": float, "operations": [[name, …], …]}

    ["admit", id, prompt, adapter, now]      hit tokens, null when refused
    ["again", id, now]                       as admit, for a preempted request
    ["append", id, tokens, now]              true, false when refused (decoded tokens and their slots)
    ["mark"], ["preempt" | "free", id]       null (mark: the step is scheduled)
    ["reset"]                                true, false when refused

Each answer is ``[result, evicted blocks in order, blocks of the request, free blocks]``; the last answer of a run
is ``["end", [], free blocks in order, their number]``.
"""

import json
import sys
from typing import Any

from vllm.core.block_manager import SelfAttnBlockSpaceManager
from vllm.core.interfaces import AllocStatus
from vllm.inputs import token_inputs
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams
from vllm.sequence import Logprob, Sequence, SequenceGroup, SequenceStatus
from vllm.utils import Device


class RealManager:
    """One block manager under operations."""

    def __init__(self, num_blocks: int, block_size: int, watermark: float) -> None:
        self.manager = SelfAttnBlockSpaceManager(
            block_size=block_size,
            num_gpu_blocks=num_blocks,
            num_cpu_blocks=0,
            watermark=watermark,
            enable_caching=True,
        )
        self.block_size = block_size
        self.groups: dict[str, SequenceGroup] = {}
        self.adapters: dict[str, int] = {}
        self.evicted: list[int] = []
        self.allocator = self.manager.block_allocator._allocators[Device.GPU]
        self._record_evictions()

    def _record_evictions(self) -> None:
        evict = self.allocator.evictor.evict

        def recording() -> tuple[int, int]:
            block, content = evict()
            self.evicted.append(block)
            return block, content

        self.allocator.evictor.evict = recording

    def play(self, operation: list[Any]) -> list[Any]:
        name, *arguments = operation
        self.evicted = []
        result = getattr(self, name)(*arguments)
        blocks: list[int] = []
        if arguments and arguments[0] in self.groups:
            sequence = self.groups[arguments[0]].seqs[0]
            if sequence.seq_id in self.manager.block_tables:
                blocks = list(self.manager.get_block_table(sequence))
        return [result, self.evicted, blocks, self.manager.get_num_free_gpu_blocks()]

    def admit(self, request_id: str, prompt: list[int], adapter: str | None, now: float) -> int | None:
        lora = None
        if adapter is not None:
            number = self.adapters.setdefault(adapter, len(self.adapters) + 1)
            lora = LoRARequest(adapter, number, "/" + adapter)
        sequence = Sequence(
            seq_id=len(self.groups), inputs=token_inputs(prompt), block_size=self.block_size, lora_request=lora
        )
        sequence.seq_id = request_id
        group = SequenceGroup(request_id, [sequence], 0.0, sampling_params=SamplingParams(max_tokens=1000))
        self.groups[request_id] = group
        return self.again(request_id, now)

    def again(self, request_id: str, now: float) -> int | None:
        group = self.groups[request_id]
        sequence = group.seqs[0]
        # As the scheduler does: a prompt that is cached whole keeps one token to compute.
        hits = min(self.manager.get_num_cached_tokens(sequence), sequence.get_len() - 1)
        if self.manager.can_allocate(group) != AllocStatus.OK:
            self.manager._computed_blocks_tracker.remove_seq(sequence.seq_id)
            return None
        self.manager.allocate(group)
        sequence.status = SequenceStatus.RUNNING
        self.manager.access_all_blocks_in_seq(sequence, now)
        return hits

    def append(self, request_id: str, tokens: list[int], now: float) -> bool:
        group = self.groups[request_id]
        sequence = group.seqs[0]
        for token in tokens:
            sequence.append_token_id(token, {token: Logprob(0.0)})
        if not self.manager.can_append_slots(group, 0):
            return False
        self.manager.append_slots(sequence, 0)
        self.manager.access_all_blocks_in_seq(sequence, now)
        return True

    def mark(self) -> None:
        self.manager.mark_blocks_as_computed(None, 0)

    def preempt(self, request_id: str) -> None:
        sequence = self.groups[request_id].seqs[0]
        self.manager.free(sequence)
        sequence.status = SequenceStatus.WAITING
        sequence.reset_state_for_recompute()

    def free(self, request_id: str) -> None:
        self.manager.free(self.groups.pop(request_id).seqs[0])

    def reset(self) -> bool:
        done = self.manager.reset_prefix_cache(Device.GPU)
        self.evicted = []
        self._record_evictions() if done else None
        return done

    def end(self) -> list[Any]:
        self.evicted = []
        free = list(self.allocator._hashless_allocator._free_block_indices)
        while self.allocator.evictor.num_blocks:
            free.append(self.allocator.evictor.evict()[0])
        return ["end", [], free, len(free)]


def main() -> None:
    """Answer stdin, run by run."""
    print("ready", flush=True)
    for line in sys.stdin:
        run = json.loads(line)
        real = RealManager(run["num_blocks"], run["block_size"], run["watermark"])
        answers = [real.play(operation) for operation in run["operations"]]
        print(json.dumps([*answers, real.end()]), flush=True)


if __name__ == "__main__":
    main()
