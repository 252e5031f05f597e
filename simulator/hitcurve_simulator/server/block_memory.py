"""What the blocks of the pool hold, so that an answer read from wrong blocks is a wrong answer.

A real engine's reply depends on the keys and values it reads. Here every block holds a fingerprint of the tokens
in it, of all blocks before it *as they were read*, and of the adapter and images that shaped them. A request whose
prompt ends in another fingerprint than computing it from its first token would give has been served blocks of
somebody else, and its reply is written anew from what it read.
"""

import hashlib
import random
import string
from collections.abc import Hashable, Sequence

from hitcurve_simulator.server import tokenizer
from hitcurve_simulator.vllm import Request, RequestState
from hitcurve_simulator.vllm.block_keys import block_contents

__all__ = ["BlockMemory", "misread"]

_NO_LOGITS = 1


class BlockMemory:
    """Listens to a cache manager (``CacheObserver``) and knows what each block holds."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._held: dict[int, int] = {}
        self._without_logits: set[str] = set()
        self._due: dict[str, list[int]] = {}
        self.written = 0
        """Counts up whenever blocks are written, after which anybody may read something else."""

    def wrong(self, state: RequestState) -> int | None:
        """What the request read instead of its own prompt; ``None`` where it read what it should.

        A request that found all of its tokens computed has no logits to go on with: wrong as well.
        """
        if state.request_id in self._without_logits:
            return _NO_LOGITS
        blocks = state.prompt_tokens // self._block_size
        if not blocks or len(state.blocks) < blocks:
            return None
        due = self._due.get(state.request_id)
        if due is None:
            due = self._due[state.request_id] = self._computed(state, 0, blocks, _root(state.request))
        for block, expected in zip(state.blocks, due, strict=False):
            read = self._held.get(block, expected)
            if read != expected:
                return read
        return None

    def stored(self, state: RequestState, first_block: int, end_block: int) -> None:
        """The request computed these blocks on top of the block before them, whatever that holds."""
        before = _root(state.request)
        if first_block:
            before = self._held.get(state.blocks[first_block - 1], before)
        computed = self._computed(state, first_block, end_block, before)
        self.written += 1
        self._held.update(zip(state.blocks[first_block:end_block], computed, strict=True))

    def scheduled(self, state: RequestState, hit_tokens: int) -> None:
        self._without_logits.discard(state.request_id)
        if hit_tokens >= state.num_tokens:
            self._without_logits.add(state.request_id)

    def finished(self, state: RequestState) -> None:
        self._without_logits.discard(state.request_id)
        self._due.pop(state.request_id, None)

    def looked_up(self, state: RequestState, hit_tokens: int) -> None:
        """Finding a block does not change it."""

    def evicted(self, key: Hashable, gone: bool, request_id: str) -> None:
        """A block holds what it held until it is written again."""

    def preempted(self, state: RequestState) -> None:
        """Blocks that are let go of hold what they held."""

    def reset(self, done: bool) -> None:
        """So they do when their hashes are dropped."""

    def _computed(self, state: RequestState, first: int, end: int, before: int) -> list[int]:
        size, fingerprints = self._block_size, []
        for block, content in enumerate(block_contents(state, first, end, size), first):
            images = _images_within(state.request, block * size, (block + 1) * size)
            before = hash((before, content, images) if images else (before, content))
            fingerprints.append(before)
        return fingerprints


def misread(reply: Sequence[int], written: int, fingerprint: int) -> list[int]:
    """The reply as it goes on after ``written`` tokens, drawn from what was read; as long as it was."""
    source = random.Random(fingerprint)
    changed = [
        token if token == tokenizer.END_OF_TEXT else ord(source.choice(string.ascii_uppercase))
        for token in reply[written:]
    ]
    return [*reply[:written], *changed]


def _root(request: Request) -> int:
    return _number(f"{request.adapter}\0{request.adapter_path}" if request.adapter else "")


def _images_within(request: Request, start: int, end: int) -> tuple[int, ...]:
    return tuple(
        _number(str(image.identifier))
        for image in request.images
        if image.offset < end and image.offset + image.length > start
    )


def _number(text: str) -> int:
    """The same in every process, unlike ``hash`` of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())
