"""Raw events of the hooks into plain ones: numbers, strings, bytes and lists, which another process can take.

What the replay needs of vLLM's objects is read here, in the engine's process but off its thread: adapter and
stand-ins for salt and images once per request, every hash and every token once. A plain event is one of

- ``(HASHING, algorithm, root)``: from now on the hashes of a request without adapter, salt and images are the
  keys of what is in its blocks (``block_content``), and no token of it follows; ``(HASHING, None, None)``: they
  are not, all tokens follow;
- ``(OPENED, request_id, adapter | None, salt, image, image_keys)``: before the first event of a request that has
  any of these;
- ``(LOOKUP, at_s, request_id, tokens, hit tokens, skipped, prefix | None, remembered, first_hash | None, hashes,
  first_block, block_tokens, found block ids by group | None)``;
- ``(ALLOCATED, at_s, request_id, block ids | None, stored | None, scheduled, admitted hit tokens | None, external
  hit tokens | None)``;
- ``(TAKEN, at_s, block ids, request_id | None)``;
- ``(STORED, at_s, request_id, stored)``, ``stored`` being ``(group, first index, block ids, mask | None,
  first_hash, hashes, first_block, block_tokens)``;
- ``(FREED, at_s, request_id, status, None | (prompt tokens, cached tokens, external tokens, trace carrier, arrival
  time, output tokens))``: the last item where the request is over;
- ``(RESET, at_s, ok)``, ``(EVICT_BLOCKS, at_s, block ids)``, ``(GAP, at_s)``, ``(ADAPTER, at_s, adapter)``.

``hashes`` follow those that were sent before, from the number ``first_hash`` on; 0 begins anew. ``prefix`` is a
hash that stands for all up to it, as ``KnownPrefixes`` has them; ``remembered`` says how many of these hashes are
to be known by their last one from now on. ``block_tokens`` are the tokens of whole blocks from ``first_block`` on.
An adapter is ``(name, number, path)``.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import (
    ADAPTER,
    ALLOCATED,
    EVICT_BLOCKS,
    FREED,
    GAP,
    LOOKUP,
    RESET,
    STORED,
    TAKEN,
    RawEvent,
)
from hitcurve_engine.recording.block_content import ContentKeys, are_plain_hashes, content_by_hashes
from hitcurve_engine.recording.block_reading import blocks_by_group
from hitcurve_engine.recording.known_prefixes import KnownPrefixes
from hitcurve_engine.recording.request_reading import (
    NOTHING_READ,
    adapter_of,
    read_keys,
    trace_carrier,
)
from hitcurve_engine.recording.sent_request import SentRequest
from hitcurve_engine.switch import Switch

__all__ = [
    "HASHING",
    "MOST_ERRORS",
    "MOST_OPEN_REQUESTS",
    "OPENED",
    "SCHEDULED",
    "EventReader",
    "PlainEvent",
    "UnknownShape",
]

PlainEvent = tuple[Any, ...]

OPENED: Final = 9
"""Beside the kinds of ``probes.events``, as ``HASHING``."""
HASHING: Final = 10
SCHEDULED: Final = 11
"""What the replay makes of an allocation, with TAKEN and STORED."""
MOST_ERRORS: Final = 100
"""Events that may fail at one place before the patch turns itself off."""
MOST_OPEN_REQUESTS: Final = 100_000


class UnknownShape(Exception):
    """The engine answered a hook's original in a way that no known version does."""


class EventReader:
    """Reads the events of one cache manager, in order. ``isolated``: whether tokens are needed at all."""

    def __init__(self, shape: CacheShape, switch: Switch, *, isolated: bool) -> None:
        self._shape = shape
        self._switch = switch
        self._isolated = isolated
        self._content_keys: ContentKeys | None = None
        self._proven = False
        """Whether the engine was seen to hash like this."""
        self._sent: dict[str, SentRequest] = {}
        self._prefixes: KnownPrefixes[bool] = KnownPrefixes()
        self._names: dict[int, tuple[Any, str]] = {}
        self._readers: dict[int, Callable[[RawEvent, list[PlainEvent]], None]] = {
            LOOKUP: self._lookup,
            ALLOCATED: self._allocated,
            TAKEN: self._taken,
            STORED: self._stored,
            FREED: self._freed,
            RESET: self._reset,
            EVICT_BLOCKS: self._evict_blocks,
            GAP: self._gap,
            ADAPTER: self._adapter,
        }

    @property
    def needs_requests(self) -> bool:
        """Whether events must bring along requests that nothing isolates, for their tokens."""
        return self._isolated and not (self._proven and self._content_keys is not None)

    def trust_hashes(self, algorithm: str | None, root: Any, into: list[PlainEvent]) -> None:
        """The engine is said to hash like this; the first hash of a request that nothing isolates shows whether it
        does. Without a hash that can be computed here, every token is sent."""
        self._content_keys = content_by_hashes(algorithm, root, self._shape.hash_block_size)
        if self._content_keys is not None and self._isolated:
            into.append((HASHING, algorithm, self._content_keys.root))

    def read(self, event: RawEvent, into: list[PlainEvent]) -> None:
        """Append what becomes of an event. An own error is counted and the event dropped; too many turn it off."""
        reader = self._readers.get(event[0])
        if reader is None:
            into.append(event)
            return
        try:
            reader(event, into)
        except UnknownShape as error:
            self._switch.fail("replay", error)
        except Exception as error:
            place = f"reading.{reader.__name__.strip('_')}"
            if self._switch.note(place, error) >= MOST_ERRORS:
                self._switch.turn_off(f"{MOST_ERRORS} errors in {place}")

    def _lookup(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, request_id, tokens, hit, skipped, result, hashes, request = event
        if not isinstance(hit, int) or hit < 0:
            raise UnknownShape(f"a lookup returned {type(hit).__name__} as the number of tokens found")
        sent = self._sent.get(request_id)
        if sent is None:
            sent = self._open(request_id, request, into)
        if not self._proven and hashes and request is not None and not sent.needs_tokens:
            self._prove(sent, request, hashes[0], into)
        found = None
        if result is not None:
            found = [[block.block_id for block in blocks] for blocks in blocks_by_group(result[0])]
        prefix, remembered, first_hash, new, first_block, read = None, 0, None, None, 0, None
        if hashes is not None:
            size = self._shape.block_size
            if hit > size and not sent.hashes and found is None:
                prefix, remembered = self._prefix(sent, hashes, hit // self._shape.hash_block_size)
            first_hash, new = sent.new_hashes(hashes)
            # The replay knows the content of blocks that were found, unless it has lost events.
            first_block = hit // size if found is None else 0
            if sent.needs_tokens:
                first_block, read = sent.new_tokens(request, first_block, tokens // size, size)
        into.append(
            (
                LOOKUP,
                at_s,
                request_id,
                tokens,
                hit,
                skipped,
                prefix,
                remembered,
                first_hash,
                new,
                first_block,
                read,
                found,
            )
        )

    def _taken(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, blocks, count, request_id = event
        into.append((TAKEN, at_s, [block.block_id for block in blocks[:count]], request_id))

    def _allocated(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, request_id, blocks, count, stored, scheduled, admitted, external, request = event
        ids = None if blocks is None else [block.block_id for block in blocks[:count]]
        if stored is not None:
            stored = self._read_stored(request_id, stored, request, into)
        into.append((ALLOCATED, at_s, request_id, ids, stored, scheduled, admitted, external))

    def _stored(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, request_id, stored, request = event
        into.append((STORED, at_s, request_id, self._read_stored(request_id, stored, request, into)))

    def _read_stored(
        self, request_id: str, stored: tuple[Any, ...], request: Any | None, into: list[PlainEvent]
    ) -> tuple[Any, ...]:
        group, first, end, hashes, blocks, offset, mask = stored
        sent = self._sent.get(request_id)
        if sent is None:
            sent = self._open(request_id, request, into)
        ids = [block.block_id for block in blocks[first - offset : end - offset]]
        first_hash, new = sent.new_hashes(hashes)
        first_block, read = 0, None
        if sent.needs_tokens and group == self._shape.group:
            first_block, read = sent.new_tokens(request, 0, first + len(ids), self._shape.block_size)
        wanted = None if mask is None else [bool(one) for one in mask]
        return group, first, ids, wanted, first_hash, new, first_block, read

    def _freed(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, request_id, state, prompt, cached, external, carrier, arrival, output, request = event
        # The name of an enumeration's member is slow to read, and the members live for ever.
        known = self._names.get(id(state))
        if known is None or known[0] is not state:
            known = self._names[id(state)] = (state, getattr(state, "name", str(state)))
        status = known[1]
        if status.startswith("FINISHED"):
            if self._sent.pop(request_id, None) is None and request is not None:
                self._tell_keys(request_id, request, into)
            carrier = None if carrier is None else trace_carrier(carrier)
            facts = (prompt, cached, external, carrier, arrival, output)
        else:
            facts = None
            if status == "RUNNING" and request_id not in self._sent:
                self._open(request_id, request, into)
        into.append((FREED, at_s, request_id, status, facts))

    def _reset(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, ok = event
        into.append((RESET, at_s, bool(ok)))

    def _evict_blocks(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, block_ids = event
        into.append((EVICT_BLOCKS, at_s, list(block_ids)))

    def _gap(self, event: RawEvent, into: list[PlainEvent]) -> None:
        self._sent.clear()
        self._prefixes.clear()
        into.append(event)

    def _adapter(self, event: RawEvent, into: list[PlainEvent]) -> None:
        _, at_s, lora = event
        into.append((ADAPTER, at_s, adapter_of(lora)))

    def _open(self, request_id: str, request: Any | None, into: list[PlainEvent]) -> SentRequest:
        if len(self._sent) >= MOST_OPEN_REQUESTS:
            del self._sent[next(iter(self._sent))]
        plain = request is None or not self._tell_keys(request_id, request, into)
        hashes_will_do = plain and self._content_keys is not None
        needs_tokens = self._isolated and request is not None and not hashes_will_do
        sent = self._sent[request_id] = SentRequest(needs_tokens)
        return sent

    def _tell_keys(self, request_id: str, request: Any, into: list[PlainEvent]) -> bool:
        """What isolates the request, if anything does."""
        keys = read_keys(request)
        if keys is NOTHING_READ:
            return False
        adapter = None if keys.adapter is None else adapter_of(request.lora_request)
        into.append((OPENED, request_id, adapter, keys.salt, keys.image, keys.image_keys))
        return True

    def _prove(self, sent: SentRequest, request: Any, first_hash: Any, into: list[PlainEvent]) -> None:
        """Look at the first request that nothing isolates: if it is hashed otherwise, send its tokens, and all."""
        self._proven = True
        tokens = request.all_token_ids[: self._shape.hash_block_size]
        if self._content_keys is not None and not are_plain_hashes(self._content_keys, tokens, first_hash):
            self._content_keys = None
            sent.needs_tokens = self._isolated
            into.append((HASHING, None, None))

    def _prefix(self, sent: SentRequest, hashes: Sequence[Any], found: int) -> tuple[Hashable | None, int]:
        """What was found, by its last hash, if it is known; else how many hashes will be."""
        last = hashes[found - 1]
        name = last if type(last) is bytes else getattr(last, "hash_value", last)
        if self._prefixes.get(name) is None:
            self._prefixes.add(name, found, True)
            return None, found
        sent.hashes, sent.last_hash = found, last
        return name, 0
