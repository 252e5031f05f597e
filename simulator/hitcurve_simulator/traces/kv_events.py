"""Recordings of KV events to requests: which prefixes were computed, in which order.

An event is sent when blocks are stored. A request is hence seen as the chain that ends with what it stored: its
parent was found, the rest computed. A request that is found whole stores nothing and leaves no trace, nor does the
part of a prompt behind its last full block: what recordings say of hits is a lower bound.
"""

import base64
import binascii
import hashlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hitcurve.errors import UsageError
from hitcurve.kv_events import BlocksStored, KvBatch, MalformedBatch, batch_of, decode_batch
from hitcurve_simulator.traces.row import LineFinding, TraceRow
from hitcurve_simulator.vllm import Request

__all__ = ["is_batch", "rows_of_batches"]

SAME_REQUEST_S = 2.0
"""Blocks that extend a chain within this time of its last store belong to the same request: chunks of its prompt
and what it generates. Later ones are a next turn."""

_DEVICE = (None, "GPU")


def is_batch(value: object) -> bool:
    """Whether a JSON value is a batch: ``[time, [event, ...], rank]``, or an object that holds one."""
    if isinstance(value, list):
        return len(value) >= 2 and isinstance(value[0], int | float) and isinstance(value[1], list)
    return isinstance(value, Mapping) and (
        isinstance(value.get("payload"), str) or ("events" in value and "ts" in value)
    )


def rows_of_batches(
    objects: list[tuple[int, object]], wanted: int | None
) -> tuple[int, list[TraceRow], list[LineFinding]]:
    """Tokens per block, a row for each request, and lines that are no batch.

    A line is a batch as JSON, ``{"ts", "events", "rank"}``, or ``{"payload": base64 of the message}``. Only stores
    on the device are read. Raises UsageError where block sizes differ or tokens are missing.
    """
    chains = _Chains(wanted)
    refused: list[LineFinding] = []
    for line, value in objects:
        try:
            batch = _batch(value)
        except MalformedBatch as error:
            refused.append(LineFinding(line, str(error)))
            continue
        for event in _stores(batch):
            try:
                chains.store(line, batch, event)
            except MalformedBatch as error:
                refused.append(LineFinding(line, str(error)))
    return chains.block_size or wanted or 16, chains.rows(), refused


@dataclass(slots=True)
class _Chain:
    """A prefix that was stored: its tokens, to whom it belongs, and the request that stored its end."""

    tokens: "array[int]"
    namespace: tuple[str | None, str | None]
    tip: "_Seen"


@dataclass(slots=True)
class _Seen:
    line: int
    at_s: float
    last_s: float
    rank: int | None
    tokens: "array[int]"
    namespace: tuple[str | None, str | None]


@dataclass(slots=True)
class _Chains:
    block_size: int | None
    _by_hash: dict[object, _Chain] = field(default_factory=dict)
    _seen: list[_Seen] = field(default_factory=list)

    def store(self, line: int, batch: KvBatch, event: BlocksStored) -> None:
        """Take one event. Raises MalformedBatch where it cannot be placed."""
        size = self._size(event)
        if len(event.token_ids) != size * len(event.hashes):
            raise MalformedBatch("a store without its tokens; the engine's own cache tells them")
        parent = None if event.parent is None else self._by_hash.get((batch.rank, event.parent))
        if event.parent is not None and parent is None:
            raise MalformedBatch("its parent was stored before the recording began")
        tokens = array("q") if parent is None else parent.tokens[:]
        namespace = _namespace(event) if parent is None else parent.namespace
        base = len(tokens)
        tokens.extend(event.token_ids)
        seen = self._request(line, batch, tokens, namespace, parent)
        for number, name in enumerate(event.hashes, 1):
            prefix = tokens if number == len(event.hashes) else tokens[: base + number * size]
            self._by_hash[batch.rank, name] = _Chain(prefix, namespace, seen)

    def rows(self) -> list[TraceRow]:
        """A row for each request, in the order in which they first stored something."""
        return [
            TraceRow(
                line=seen.line,
                request=Request(
                    request_id=f"store {number}, line {seen.line}",
                    prompt_token_ids=seen.tokens,
                    adapter=seen.namespace[0],
                    cache_salt=seen.namespace[1],
                ),
                arrival_s=seen.at_s,
            )
            for number, seen in enumerate(self._seen, 1)
        ]

    def _request(
        self,
        line: int,
        batch: KvBatch,
        tokens: "array[int]",
        namespace: tuple[str | None, str | None],
        parent: _Chain | None,
    ) -> _Seen:
        if parent is not None:
            seen = parent.tip
            extends = len(seen.tokens) == len(parent.tokens)
            if extends and batch.at_s - seen.last_s <= SAME_REQUEST_S:
                seen.tokens, seen.last_s = tokens, batch.at_s
                return seen
        seen = _Seen(line, batch.at_s, batch.at_s, batch.rank, tokens, namespace)
        self._seen.append(seen)
        return seen

    def _size(self, event: BlocksStored) -> int:
        size = event.block_size or self.block_size
        if size is None:
            raise MalformedBatch("a store that does not say its block size")
        if self.block_size is None:
            self.block_size = size
        if size != self.block_size:
            raise UsageError(
                f"the recording has blocks of {self.block_size} and of {size} tokens; a hybrid model cannot be "
                "estimated from its events."
            )
        return size


def _stores(batch: KvBatch) -> Iterator[BlocksStored]:
    """Stores on the device, of the first group of a hybrid model."""
    for event in batch.events:
        if isinstance(event, BlocksStored) and event.medium in _DEVICE and event.group in (None, 0):
            yield event


def _batch(value: Any) -> KvBatch:
    if isinstance(value, Mapping):
        if "payload" in value:
            return decode_batch(_unpacked(value["payload"]))
        return batch_of([value.get("ts"), value.get("events"), value.get("rank")])
    return batch_of(value)


def _unpacked(payload: object) -> bytes:
    try:
        return base64.b64decode(str(payload), validate=True)
    except (binascii.Error, ValueError):
        raise MalformedBatch("its payload is not base64") from None


def _namespace(event: BlocksStored) -> tuple[str | None, str | None]:
    """Adapter, and a digest of what else went into the first block's hash: salts are not kept."""
    keys = event.extra_keys[0] if event.extra_keys else None
    others = [key for key in keys if key != event.adapter] if isinstance(keys, list | tuple) else []
    if not others:
        return event.adapter, None
    return event.adapter, hashlib.sha256(repr(others).encode()).hexdigest()[:12]
