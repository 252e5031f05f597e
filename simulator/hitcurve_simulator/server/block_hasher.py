"""Block keys of fixed size for a server that lives long."""

from array import array
from collections.abc import Hashable
from hashlib import blake2b

from hitcurve_simulator.vllm.block_keys import ExtraKeys

__all__ = ["DigestHasher"]

_ROOT = b"\x00" * 16


class DigestHasher:
    """16-byte BLAKE2b digests of (parent, token ids, extra keys): nothing is remembered, memory stays flat."""

    def __call__(self, parent: Hashable, content: Hashable, extra_keys: ExtraKeys) -> Hashable:
        """``content`` is a tuple of token ids below 65,536; ``parent`` an earlier digest, None for the first."""
        assert isinstance(content, tuple)
        assert parent is None or isinstance(parent, bytes)
        digest = blake2b(parent or _ROOT, digest_size=16)
        digest.update(array("H", content).tobytes())
        if extra_keys is not None:
            digest.update(repr(extra_keys).encode("utf-8", "backslashreplace"))
        return digest.digest()
