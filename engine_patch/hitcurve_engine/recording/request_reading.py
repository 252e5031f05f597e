"""Read vLLM's ``Request`` as it is in any version from 0.8.5 on. Tokens are read here and nowhere kept."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "NOTHING_READ",
    "Adapter",
    "RequestKeys",
    "adapter_of",
    "plain_hashes",
    "read_keys",
    "trace_carrier",
]


@dataclass(frozen=True, slots=True)
class RequestKeys:
    """What isolates the blocks of a request; stand-ins, not the values."""

    adapter: str | None
    salt: Hashable | None
    image: Hashable | None
    image_keys: int


NOTHING_READ: Final = RequestKeys(adapter=None, salt=None, image=None, image_keys=0)
"""Of a request that shares its blocks with every other one."""

Adapter = tuple[str, int, str]
"""Name, number and path of an adapter."""


def adapter_of(lora: Any) -> Adapter:
    """What tells the weights of a ``LoRARequest`` apart."""
    return str(lora.lora_name), int(lora.lora_int_id), str(getattr(lora, "lora_path", "") or "")


def read_keys(request: Any) -> RequestKeys:
    """Adapter, salt and image identifiers of a request; the object ``NOTHING_READ`` where it has none of them."""
    lora = getattr(request, "lora_request", None)
    salt = getattr(request, "cache_salt", None)
    images = _image_identifiers(request)
    if lora is None and not salt and not images:
        return NOTHING_READ
    return RequestKeys(
        adapter=None if lora is None else str(lora.lora_name),
        salt=hash(salt) if salt else None,
        image=hash(tuple(images)) if images else None,
        image_keys=len(images),
    )


def trace_carrier(headers: Any) -> Mapping[str, str] | None:
    """``traceparent`` and ``tracestate`` of a request's headers, or of its ``extra_args``."""
    carrier = {}
    for name in ("traceparent", "tracestate"):
        value = headers.get(name)
        if isinstance(value, str):
            carrier[name] = value
    return carrier if "traceparent" in carrier else None


def plain_hashes(block_hashes: list[Any]) -> list[Hashable]:
    """Hashes without the tokens that versions up to 0.10.1 keep beside them."""
    if block_hashes and hasattr(block_hashes[0], "hash_value"):
        return [value.hash_value for value in block_hashes]
    return block_hashes


def _image_identifiers(request: Any) -> list[str]:
    features = getattr(request, "mm_features", None)
    if features:
        return [str(getattr(feature, "identifier", "")) for feature in features]
    embeddings = getattr(request, "prompt_embeds", None)
    identifiers = [str(value) for value in getattr(request, "mm_hashes", None) or ()]
    return [*identifiers, f"embeddings-{id(embeddings)}"] if embeddings is not None else identifiers
