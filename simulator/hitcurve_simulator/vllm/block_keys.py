"""Chained block keys: what identifies a full block together with everything before it.

A key is H(parent key, content of the block, extra keys). Content is a tuple of token ids, or the id that a
trace gives to the block. Extra keys are those of ``hitcurve.hashing``: adapter in every block, images where
they lie, the salt in the first.
"""

import hashlib
from collections.abc import Hashable, Sequence
from typing import Protocol

from hitcurve.hashing import Adapter, extra_keys, hash_function
from hitcurve_simulator.vllm.request import Request, RequestState

__all__ = ["BlockHasher", "ExtraKeys", "InterningHasher", "VllmHasher", "block_contents", "extend_keys"]

ExtraKeys = tuple[object, ...] | None

_CODE_BITS = 64
_LARGEST_NUMBER = 1 << 63
# Adapters are keyed by number before this version: one number per name, so names tell them apart as well.
_ADAPTER_NAMES_SINCE: tuple[int, ...] = (0, 11, 1)


class BlockHasher(Protocol):
    """H(parent, content, extra keys); ``parent`` is None for the first block."""

    def __call__(self, parent: Hashable, content: Hashable, extra_keys: ExtraKeys) -> Hashable: ...


class InterningHasher:
    """Exact and fast: numbers distinct prefixes in the order they are met, from 1 on.

    Remembers every prefix it ever saw, so memory grows with the distinct blocks of a run; a server that
    lives long takes ``VllmHasher``.
    """

    def __init__(self) -> None:
        self._contents: dict[Hashable, int] = {}
        self._prefixes: dict[int, int] = {}

    def __call__(self, parent: Hashable, content: Hashable, extra_keys: ExtraKeys) -> int:
        labelled = content if extra_keys is None else (content, extra_keys)
        return self.chain(parent, (labelled,))[0]

    def chain(self, parent: Hashable, contents: Sequence[Hashable]) -> list[int]:
        """Keys of consecutive blocks without extra keys; ``parent`` is a key of this hasher or None."""
        number, key_of = self._contents.setdefault, self._prefixes.setdefault
        contents_seen, prefixes_seen = self._contents, self._prefixes
        key = parent if isinstance(parent, int) else 0
        keys = []
        for content in contents:
            # One integer per (parent, content): cheaper to make and to hash than a tuple. Even numbers stand
            # for themselves twofold, odd ones for a place in the list of other contents.
            if type(content) is int and 0 <= content < _LARGEST_NUMBER:
                code = content << 1
            else:
                code = number(content, len(contents_seen)) << 1 | 1
            key = key_of(key << _CODE_BITS | code, len(prefixes_seen) + 1)
            keys.append(key)
        return keys


class VllmHasher:
    """vLLM's own hashes, byte for byte, of fixed size (``hitcurve.hashing``)."""

    def __init__(self, algorithm: str, root: bytes) -> None:
        """``root`` is ``hitcurve.hashing.none_hash(algorithm, …)``. Raises UsageError for an unknown algorithm."""
        self._function = hash_function(algorithm)
        self._root = root

    @property
    def root_fingerprint(self) -> str:
        """Eight digits that tell whether two engines begin their hashes alike, and nothing of any content."""
        return hashlib.sha256(self._root).hexdigest()[:8]

    def __call__(self, parent: Hashable, content: Hashable, extra_keys: ExtraKeys) -> bytes:
        return self._function((self._root if parent is None else parent, content, extra_keys))


def extend_keys(hasher: BlockHasher, state: RequestState, block_size: int, version: tuple[int, ...]) -> None:
    """Append to ``state.keys`` the keys of all full blocks that have none yet.

    ``version`` of vLLM decides the form of extra keys. Full blocks that a trace does not name (they hold
    output) are content nobody else has.
    """
    request, keys = state.request, state.keys
    first, end = len(keys), state.num_tokens // block_size
    if first >= end:
        return
    contents = block_contents(state, first, end, block_size)
    parent = keys[-1] if keys else None
    if not (request.adapter or request.images or request.cache_salt) and isinstance(hasher, InterningHasher):
        keys.extend(hasher.chain(parent, contents))
        return
    for block, content in enumerate(contents, first):
        parent = hasher(parent, content, _extra_keys(request, block * block_size, block_size, version))
        keys.append(parent)


def _extra_keys(request: Request, start: int, block_size: int, version: tuple[int, ...]) -> ExtraKeys:
    adapter = Adapter(request.adapter, request.adapter_path) if request.adapter else None
    return extra_keys(
        start,
        start + block_size,
        adapter=adapter,
        salt=request.cache_salt,
        images=request.images,
        version=max(version, _ADAPTER_NAMES_SINCE),
    )


def block_contents(state: RequestState, first: int, end: int, block_size: int) -> Sequence[Hashable]:
    request = state.request
    if request.prompt_token_ids is not None:
        start = first * block_size
        tokens = _tokens(state, start, end * block_size)
        return [tuple(tokens[at : at + block_size]) for at in range(0, (end - first) * block_size, block_size)]
    ids = request.block_contents or ()
    named = min(len(ids), end)
    contents: list[Hashable] = list(ids[first:named])
    contents.extend(("only in", request.request_id, block) for block in range(max(first, named), end))
    return contents


def _tokens(state: RequestState, start: int, end: int) -> Sequence[int]:
    prompt = state.request.prompt_token_ids or ()
    length = state.prompt_tokens
    if end <= length:
        return prompt[start:end]
    outputs = state.output_token_ids
    if start >= length:
        return outputs[start - length : end - length]
    return [*prompt[start:], *outputs[: end - length]]
