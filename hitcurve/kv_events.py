"""KV events of vLLM (and of SGLang, which publishes the same): what was stored, removed and cleared in the cache.

A batch is one msgpack value, ``[time, [event, ...], rank?]``. An event is a list that begins with its kind
(vLLM 0.9.0 to 0.23: ``["BlockStored", hashes, parent, token_ids, block_size, lora_id, ...]``) or a mapping whose
``type`` is the kind (since 0.24). Most releases added fields; what a batch does not say is ``None``. Source:
``vllm/distributed/kv_events.py`` of the releases 0.9.0 to 0.33.0.

Batches of another origin are taken as plain values, so a recording in JSON needs no package. Hashes are whole
numbers (vLLM to 0.10.1, or ``VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES``) or bytes; in JSON, texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "BlocksCleared",
    "BlocksRemoved",
    "BlocksStored",
    "KvBatch",
    "KvEvent",
    "MalformedBatch",
    "batch_of",
    "decode_batch",
]

_STORED: Final = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
)
"""Order of the fields in a list, as far as it is read. New ones were only ever added behind the others."""
_REMOVED: Final = ("block_hashes", "medium", "group_idx")
_HASH_TYPES: Final = {int, bytes, str}

BlockHash = int | bytes | str


class MalformedBatch(ValueError):
    """The payload is no batch of KV events; the message says where it stops being one."""


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that can be found from now on: a chain, each the successor of the one before.

    Stored again under the same hash, a block is a copy, and each copy is removed by an event of its own. A request
    that asks for ``kv_cache_report_mode: full`` (vLLM 0.26) makes hits look like stores; nothing tells them apart.
    """

    hashes: tuple[BlockHash, ...]
    parent: BlockHash | None
    """Hash of the block before the first; ``None`` at the start of a prompt."""
    token_ids: tuple[int, ...]
    """Tokens of all blocks, ``len(hashes) * block_size`` of them; some tiers tell none."""
    block_size: int | None
    """Tokens of one block; ``None`` where the publisher does not say (some tiers write 0)."""
    adapter: str | None
    """Name of the LoRA adapter, or its number as text before vLLM 0.14."""
    medium: str | None
    """Where the blocks are: ``GPU``, ``CPU``, ``STORAGE``, in SGLang also ``CPU_PINNED``, ``DISK``, ``EXTERNAL``;
    ``None`` before vLLM 0.10.2."""
    group: int | None
    """KV cache group of a hybrid model, since vLLM 0.20; the hashes of two groups are equal."""
    extra_keys: tuple[Any, ...] | None
    """By block, what went into its hash besides tokens; since vLLM 0.17. May hold a salt: never show it."""


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    """One copy of each of these blocks is gone, by eviction nearly always."""

    hashes: tuple[BlockHash, ...]
    medium: str | None
    group: int | None


@dataclass(frozen=True, slots=True)
class BlocksCleared:
    """Nothing can be found any more: the prefix cache was reset."""


KvEvent = BlocksStored | BlocksRemoved | BlocksCleared


@dataclass(frozen=True, slots=True)
class KvBatch:
    """What one scheduling step published."""

    at_s: float
    """Unix time on the engine's clock."""
    events: tuple[KvEvent, ...]
    rank: int | None
    """Data-parallel rank, since vLLM 0.9.1."""
    unknown_kinds: tuple[str, ...] = ()
    """Kinds of events that were left out because nothing is known of them."""


def decode_batch(payload: bytes) -> KvBatch:
    """The batch of one message. MalformedBatch where it is none; needs the package msgspec."""
    import msgspec

    try:
        values = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise MalformedBatch(f"not msgpack ({error})") from error
    return batch_of(values)


def batch_of(values: object) -> KvBatch:
    """The batch that decoded values stand for. MalformedBatch where they stand for none."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes) or len(values) < 2:
        raise MalformedBatch("a batch is a list of time and events")
    at_s, listed, *rest = values
    if isinstance(at_s, bool) or not isinstance(at_s, int | float):
        raise MalformedBatch("a batch begins with its time")
    if not isinstance(listed, list | tuple):
        raise MalformedBatch("the events of a batch are a list")
    events, unknown = [], []
    for one in listed:
        kind, fields = _kind_and_fields(one)
        event = _event(kind, fields)
        if event is None:
            unknown.append(kind[:80])
        else:
            events.append(event)
    return KvBatch(float(at_s), tuple(events), _whole(rest[0] if rest else None), tuple(unknown))


def _kind_and_fields(value: object) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, Mapping):
        kind, fields = value.get("type"), value
    elif isinstance(value, list | tuple) and value:
        kind = value[0]
        order = _STORED if kind == "BlockStored" else _REMOVED
        fields = dict(zip(order, value[1:], strict=False))
    else:
        raise MalformedBatch("an event is a mapping or a list that begins with its kind")
    if not isinstance(kind, str):
        raise MalformedBatch("an event does not say its kind")
    return kind, fields


def _event(kind: str, fields: Mapping[str, Any]) -> KvEvent | None:
    if kind == "AllBlocksCleared":
        return BlocksCleared()
    if kind == "BlockRemoved":
        return BlocksRemoved(_hashes(fields), _text(fields.get("medium")), _whole(fields.get("group_idx")))
    if kind != "BlockStored":
        return None
    extra = fields.get("extra_keys")
    return BlocksStored(
        _hashes(fields),
        _hash_or_none(fields.get("parent_block_hash")),
        _tokens(fields.get("token_ids")),
        _whole(fields.get("block_size")) or None,
        _adapter(fields),
        _text(fields.get("medium")),
        _whole(fields.get("group_idx")),
        tuple(extra) if isinstance(extra, list | tuple) else None,
    )


def _hashes(fields: Mapping[str, Any]) -> tuple[BlockHash, ...]:
    found = fields.get("block_hashes")
    if not isinstance(found, list | tuple) or not {*map(type, found)} <= _HASH_TYPES:
        raise MalformedBatch("the hashes of an event are a list of numbers or bytes")
    return tuple(found)


def _hash_or_none(value: object) -> BlockHash | None:
    if value is None or type(value) in _HASH_TYPES:
        return value  # type: ignore[return-value]
    raise MalformedBatch("the parent of a block is a number or bytes")


def _tokens(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not {*map(type, value)} <= {int}:
        raise MalformedBatch("token ids are a list of whole numbers")
    return tuple(value)


def _adapter(fields: Mapping[str, Any]) -> str | None:
    name, number = _text(fields.get("lora_name")), _whole(fields.get("lora_id"))
    return name or (None if number is None else str(number))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
