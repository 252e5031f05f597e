"""Chained block hashes as vLLM computes them, byte for byte.

A full block of tokens is named by H((parent, tokens, extra keys)): ``parent`` is the hash of the block before it,
for the first block a root that vLLM calls NONE_HASH; ``extra keys`` keep apart what must not be shared (adapter,
salt, images). Source: vLLM 0.32.0, ``v1/core/kv_cache_utils.py`` and ``utils/hashing.py``; what differs in older
versions follows the ``version`` argument. Hashes are bytes since vLLM 0.10.2; older ones are not covered, nor are
prompt embeddings and the ``num_hash_lookahead_tokens`` of 0.33.

``sha256`` needs nothing but the standard library. The packages of the others (cbor2, xxhash) are imported when
they are asked for.
"""

import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, get_args

from hitcurve.errors import UsageError

__all__ = [
    "ALGORITHMS",
    "Adapter",
    "Algorithm",
    "Image",
    "block_hash",
    "block_hashes",
    "extra_keys",
    "hash_function",
    "none_hash",
]

Algorithm = Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"]
HashFunction = Callable[[object], bytes]
Version = tuple[int, ...]

ALGORITHMS: Final[tuple[Algorithm, ...]] = get_args(Algorithm)
LATEST: Final[Version] = (0, 32)

_FIXED_SEED: Final = "vllm-none-hash"
_SEEDED_SINCE: Final[Version] = (0, 29)
_TAGGED_SINCE: Final[Version] = (0, 31)
_IMAGE_OFFSETS_SINCE: Final[Version] = (0, 19)
_ADAPTER_NAMES_SINCE: Final[Version] = (0, 11, 1)


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter. Keyed by name and path since vLLM 0.31, by name since 0.11.1, by number before."""

    name: str
    path: str = ""
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A multimodal input: its identifier, where in the prompt its placeholders start, how many there are."""

    identifier: str
    offset: int
    length: int


def hash_function(algorithm: str) -> HashFunction:
    """The function behind ``--prefix-caching-hash-algo``.

    16 bytes for the xxhash family, 32 for the others. Raises UsageError for an unknown name and for a package that
    is not installed.
    """
    if algorithm not in ALGORITHMS:
        raise UsageError(f"there is no hash algorithm '{algorithm}'; vLLM has {', '.join(ALGORITHMS)}.")
    serialise = _cbor(algorithm) if algorithm.endswith("_cbor") else _pickle
    digest = _xxh3(algorithm) if algorithm.startswith("xxhash") else _sha256
    return lambda value: digest(serialise(value))


def none_hash(
    algorithm: str,
    python_hash_seed: str | None = None,
    version: Version = LATEST,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> bytes:
    """The root of every chain (NONE_HASH), given the engine's ``PYTHONHASHSEED`` (``None`` = unset).

    Set, the seed decides. Unset, the root is fixed for the sha256 family since vLLM 0.29; for the xxhash family,
    and for all before 0.29, it is random, a new one in each engine process, so that its hashes cannot be foretold.
    """
    function = hash_function(algorithm)
    if python_hash_seed is not None:
        return function(python_hash_seed)
    if version < _SEEDED_SINCE:
        return random_bytes(32)
    if algorithm.startswith("xxhash"):
        return function(random_bytes(32).hex())
    return function(_FIXED_SEED)


def block_hash(
    function: HashFunction, parent: bytes, token_ids: Sequence[int], keys: tuple[object, ...] | None = None
) -> bytes:
    """The hash of one full block. Token ids are plain ints: other integer types serialise differently."""
    return function((parent, tuple(token_ids), keys))


def block_hashes(
    token_ids: Sequence[int],
    block_size: int,
    algorithm: str,
    root: bytes,
    *,
    adapter: Adapter | None = None,
    salt: str | None = None,
    images: Sequence[Image] = (),
    version: Version = LATEST,
) -> list[bytes]:
    """The hashes of the full blocks of a prompt, first to last; a partial last block has none.

    ``root`` is ``none_hash(...)``. Without adapter, salt and images they are the content keys of the ledger.
    """
    function = hash_function(algorithm)
    hashes = []
    parent = root
    for start in range(0, len(token_ids) - block_size + 1, block_size):
        end = start + block_size
        keys = extra_keys(start, end, adapter=adapter, salt=salt, images=images, version=version)
        parent = block_hash(function, parent, token_ids[start:end], keys)
        hashes.append(parent)
    return hashes


def extra_keys(
    start: int,
    end: int,
    *,
    adapter: Adapter | None = None,
    salt: str | None = None,
    images: Sequence[Image] = (),
    version: Version = LATEST,
) -> tuple[object, ...] | None:
    """What enters the hash of the block of tokens ``start`` to ``end`` besides its tokens; ``None`` = nothing.

    The adapter enters every block, the salt the first, an image those that hold a placeholder of it (since vLLM
    0.19 with its offset from the start of the block). Images are in the order of their offsets.
    """
    tagged = version >= _TAGGED_SINCE
    keys: list[object] = []
    if adapter is not None:
        keys.append(_adapter_key(adapter, version))
    for image in images:
        if image.offset < end and image.offset + image.length > start:
            keys.append(_image_key(image, start, version))
    if salt and start == 0:
        keys.append(("cache_salt", _detached(salt)) if tagged else _detached(salt))
    return tuple(keys) if keys else None


def _adapter_key(adapter: Adapter, version: Version) -> object:
    if version >= _TAGGED_SINCE:
        return ("lora", _detached(adapter.name), _detached(adapter.path))
    if version >= _ADAPTER_NAMES_SINCE:
        return _detached(adapter.name)
    if adapter.number is None:
        raise UsageError(f"vLLM before 0.11.1 keys adapters by number; give adapter '{adapter.name}' its number.")
    return adapter.number


def _image_key(image: Image, start: int, version: Version) -> object:
    identifier = _detached(image.identifier)
    if version >= _TAGGED_SINCE:
        return ("mm", identifier, image.offset - start)
    if version >= _IMAGE_OFFSETS_SINCE:
        return (identifier, image.offset - start)
    return identifier


def _detached(text: str) -> str:
    # pickle writes an object that it has met before as a reference, so two equal strings serialise differently
    # when they are one object. vLLM gets each of them separately out of a message; so must they be here.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def _pickle(value: object) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _cbor(algorithm: str) -> HashFunction:
    dumps: Callable[..., bytes] = _package("cbor2", algorithm).dumps
    return lambda value: dumps(value, canonical=True)


def _xxh3(algorithm: str) -> Callable[[bytes], bytes]:
    digest: Callable[[bytes], bytes] = _package("xxhash", algorithm).xxh3_128_digest
    return digest


def _package(name: str, algorithm: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise UsageError(
            f"the hash algorithm '{algorithm}' needs the package '{name}'; "
            "install it with: pip install 'hitcurve[simulator]'"
        ) from None
