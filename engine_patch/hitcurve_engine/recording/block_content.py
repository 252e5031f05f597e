"""Keys of what is in a block, whatever isolates it: from its tokens and those of the blocks before it.

Where the engine's hashes can be computed again, a block's key is the hash that it would have without adapter, salt
and images. Then a request that has none of these brings its keys along, and no token of it is needed.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from hitcurve.errors import UsageError
from hitcurve.hashing import block_hash, hash_function

__all__ = ["BY_TOKENS", "ContentKeys", "are_plain_hashes", "content_by_hashes"]


@dataclass(frozen=True, slots=True)
class ContentKeys:
    """``key_of`` gives the key of a block from its parent's and its tokens; the first one's parent is ``root``."""

    root: Hashable
    key_of: Callable[[Hashable, tuple[int, ...]], Hashable]
    are_hashes: bool
    """Whether they are the engine's own hashes of what nothing isolates."""


BY_TOKENS: Final = ContentKeys(0, lambda parent, tokens: hash((parent, tokens)), are_hashes=False)


def content_by_hashes(algorithm: str | None, root: object, hash_block_size: int) -> ContentKeys | None:
    """Keys as an engine with this ``--prefix-caching-hash-algo`` and this NONE_HASH hashes so many tokens at once
    (vLLM 0.10.2+); ``None`` where that cannot be computed here."""
    if algorithm is None or not isinstance(root, bytes):
        return None
    try:
        function = hash_function(algorithm)
    except UsageError:
        return None

    def key_of(parent: Hashable, tokens: tuple[int, ...]) -> Hashable:
        for start in range(0, len(tokens), hash_block_size):
            assert isinstance(parent, bytes)
            parent = block_hash(function, parent, tokens[start : start + hash_block_size])
        return parent

    return ContentKeys(bytes(root), key_of, are_hashes=True)


def are_plain_hashes(keys: ContentKeys, tokens: Sequence[int], first_hash: Hashable) -> bool:
    """Whether the engine hashed the first block of a request that nothing isolates as ``keys`` do."""
    try:
        return keys.key_of(keys.root, tuple(tokens)) == first_hash
    except Exception:
        return False
