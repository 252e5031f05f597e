"""What the simulated model answers: plain ASCII words, the same for the same prompt and seed.

A reply is drawn from the hash of (engine seed, request seed, adapter, sample index, prompt), so equal requests get
equal replies, across processes and machines, and different adapters or samples get different ones.
"""

import hashlib
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from hitcurve_simulator.server import tokenizer

__all__ = ["ReplyWriter"]

# fmt: off
_WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll",
    "larch", "meadow", "north", "opal", "pine", "quartz", "river", "shore", "tundra", "umber", "valley",
    "willow", "yarrow", "zephyr", "and", "but", "or", "so", "then", "near", "over", "under", "with", "from",
    "into", "the", "a", "this", "that", "slowly", "gently", "often", "never", "calm", "cold", "warm",
    "bright", "small", "open", "quiet", "deep", "old", "new", "wide", "clear",
)
# fmt: on
_STREAM_SEPARATOR = b"\x00"


@dataclass(frozen=True, slots=True)
class ReplyWriter:
    """Draws replies.

    ``mean_tokens``: a reply ends by itself after half to one and a half times as many tokens, where the request
    does not end it earlier.
    """

    seed: int = 0
    mean_tokens: int = 256

    def reply(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int,
        min_tokens: int = 0,
        ignore_end: bool = False,
        request_seed: int | None = None,
        adapter: str | None = None,
        sample: int = 0,
    ) -> list[int]:
        """Token ids of one reply, at most ``max_tokens``; one that ends by itself has the end token last."""
        source = random.Random(self._stream(prompt, request_seed, adapter, sample))
        own_length = max(1, min_tokens, round(self.mean_tokens * (0.5 + source.random())))
        ends_itself = not ignore_end and own_length <= max_tokens
        length = own_length - 1 if ends_itself else max_tokens
        text = bytearray()
        while len(text) < length:
            text += source.choice(_WORDS).encode() + b" "
        tokens = list(text[:length])
        if ends_itself:
            tokens.append(tokenizer.END_OF_TEXT)
        return tokens

    def _stream(self, prompt: Sequence[int], request_seed: int | None, adapter: str | None, sample: int) -> int:
        identity = f"{self.seed}/{request_seed}/{sample}/{adapter or ''}".encode()
        digest = hashlib.blake2b(identity + _STREAM_SEPARATOR, digest_size=8)
        digest.update(array("H", prompt).tobytes())
        return int.from_bytes(digest.digest())
