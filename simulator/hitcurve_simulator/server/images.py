"""Images in a chat: each is a placeholder in the prompt, and a key of the blocks that it lies in.

The simulated model sees nothing; as in vLLM, what tells two images of one size apart is a hash of their content,
here of the address they are given by.
"""

import hashlib
from collections.abc import Sequence

from hitcurve.hashing import Image

__all__ = ["IMAGE", "place_images"]

IMAGE = "\ufffc" * 16
"""What stands in the prompt's text for an image: 48 tokens."""
_TOKENS = bytes(IMAGE, "utf-8")


def place_images(prompt: Sequence[int], addresses: Sequence[str]) -> tuple[Image, ...]:
    """The images where their placeholders lie in the prompt, in order."""
    if not addresses:
        return ()
    text, found, at = bytes(token & 0xFF for token in prompt), [], 0
    for address in addresses:
        at = text.index(_TOKENS, at)
        found.append(Image(hashlib.sha256(address.encode("utf-8", "replace")).hexdigest(), at, len(_TOKENS)))
        at += len(_TOKENS)
    return tuple(found)
