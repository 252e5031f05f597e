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
- of the kind SCHEDULED: the raw event as it is;
- ``(TAKEN, at_s, block ids, request_id | None)``;
- ``(STORED, at_s, request_id, group, first index, block ids, mask | None, first_hash, hashes, first_block,
  block_tokens)``;
- ``(FREED, at_s, request_id, status, None | (prompt tokens, cached tokens, external tokens, trace carrier, arrival
  time, output tokens))``: the last item where the request is over;
- ``(RESET, at_s, ok)``, ``(EVICT_BLOCKS, at_s, block ids)``, ``(GAP, at_s)``, ``(ADAPTER, at_s, adapter)``.

``hashes`` follow those that were sent before, from the number ``first_hash`` on; 0 begins anew. ``prefix`` is a
hash that stands for all up to it, as ``KnownPrefixes`` has them; ``remembered`` says how many of these hashes are
to be known by their last one from now on. ``block_tokens`` are the tokens of whole blocks from ``first_block`` on.
An adapter is ``(name, number, path)``.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import (
    ADAPTER,
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
    PlainRequests,
    adapter_of,
    plain_hashes,
    read_keys,
    skips_lookup,
    trace_carrier,
)
from hitcurve_engine.switch import Switch

__all__ = ["HASHING", "MOST_ERRORS", "MOST_OPEN_REQUESTS", "OPENED", "EventReader", "PlainEvent", "UnknownShape"]

PlainEvent = tuple[Any, ...]

OPENED: Final = 9
"""Beside the kinds of ``probes.events``, as ``HASHING``."""
HASHING: Final = 10
MOST_ERRORS: Final = 100
"""Events that may fail at one place before the patch turns itself off."""
MOST_OPEN_REQUESTS: Final = 100_000


class UnknownShape(Exception):
    """The engine answered a hook's original in a way that no known version does."""


class _Sent:
    """How much of a request was sent."""

    __slots__ = ("blocks", "hashes", "last_hash", "needs_tokens")

    def __init__(self, needs_tokens: bool) -> None:
        self.needs_tokens = needs_tokens
        self.hashes = 0
        self.last_hash: Any = None
        self.blocks = 0
        """Blocks whose tokens were sent, or need not be."""


class EventReader:
    """Reads the events of one cache manager, in order. ``isolated``: whether tokens are needed at all."""

    def __init__(self, shape: CacheShape, switch: Switch, *, isolated: bool) -> None:
        self._shape = shape
        self._switch = switch
        self._isolated = isolated
        self._content_keys: ContentKeys | None = None
        self._proven = False
        """Whether the engine was seen to hash like this."""
        self._sent: dict[str, _Sent] = {}
        self._prefixes: KnownPrefixes[bool] = KnownPrefixes()
        self._plain = PlainRequests()
        self._names: dict[int, tuple[Any, str]] = {}
        self._readers: dict[int, Callable[..., None]] = {
            LOOKUP: self._lookup,
            TAKEN: self._taken,
            STORED: self._stored,
            FREED: self._freed,
            RESET: self._reset,
            EVICT_BLOCKS: self._evict_blocks,
            GAP: self._gap,
            ADAPTER: self._adapter,
        }

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
            reader(into, *event[1:])
        except UnknownShape as error:
            self._switch.fail("replay", error)
        except Exception as error:
            place = f"reading.{reader.__name__.strip('_')}"
            if self._switch.note(place, error) >= MOST_ERRORS:
                self._switch.turn_off(f"{MOST_ERRORS} errors in {place}")

    def _lookup(
        self, into: list[PlainEvent], at_s: float, request: Any, tokens: int, hit: Any, result: Any, hashes: Any
    ) -> None:
        if not isinstance(hit, int) or hit < 0:
            raise UnknownShape(f"a lookup returned {type(hit).__name__} as the number of tokens found")
        sent = self._open(request, into)
        if not self._proven and hashes and not sent.needs_tokens:
            self._prove(sent, request, hashes[0], into)
        found = None
        if result is not None:
            found = [[block.block_id for block in blocks] for blocks in blocks_by_group(result[0])]
        prefix, remembered, first_hash, new, first_block, read = None, 0, None, None, 0, None
        if hashes is not None:
            size = self._shape.block_size
            if hit > size and not sent.hashes and found is None:
                prefix, remembered = self._prefix(sent, hashes, hit // self._shape.hash_block_size)
            first_hash, new = self._hashes(sent, hashes)
            # The replay knows the content of blocks that were found, unless it has lost events.
            known = hit // size if found is None else 0
            first_block, read = self._tokens(sent, request, known, tokens // size)
        asked = (LOOKUP, at_s, request.request_id, tokens, hit, skips_lookup(request))
        into.append((*asked, prefix, remembered, first_hash, new, first_block, read, found))

    def _taken(self, into: list[PlainEvent], at_s: float, blocks: Sequence[Any], count: int, request: Any) -> None:
        ids = [block.block_id for block in blocks[:count]]
        into.append((TAKEN, at_s, ids, None if request is None else request.request_id))

    def _stored(
        self,
        into: list[PlainEvent],
        at_s: float,
        request: Any,
        group: int,
        first: int,
        end: int,
        hashes: Sequence[Any],
        blocks: Sequence[Any],
        offset: int,
        mask: Iterable[Any] | None,
    ) -> None:
        sent = self._open(request, into)
        ids = [block.block_id for block in blocks[first - offset : end - offset]]
        first_hash, new = self._hashes(sent, hashes)
        first_block, read = 0, None
        if group == self._shape.group:
            first_block, read = self._tokens(sent, request, 0, first + len(ids))
        wanted = None if mask is None else [bool(one) for one in mask]
        request_id = request.request_id
        into.append((STORED, at_s, request_id, group, first, ids, wanted, first_hash, new, first_block, read))

    def _freed(self, into: list[PlainEvent], at_s: float, request: Any, state: Any) -> None:
        status = self._name_of(state)
        facts = None
        if status.startswith("FINISHED"):
            self._open(request, into)
            del self._sent[request.request_id]
            facts = (
                request.num_prompt_tokens,
                getattr(request, "num_cached_tokens", None),
                getattr(request, "num_external_computed_tokens", None),
                trace_carrier(request),
                getattr(request, "arrival_time", None),
                getattr(request, "num_output_tokens", None),
            )
        elif status == "RUNNING":
            self._open(request, into)
        into.append((FREED, at_s, request.request_id, status, facts))

    def _name_of(self, state: Any) -> str:
        # The name of an enumeration's member is slow to read, and the members live for ever.
        known = self._names.get(id(state))
        if known is None or known[0] is not state:
            known = self._names[id(state)] = (state, getattr(state, "name", str(state)))
        return known[1]

    def _reset(self, into: list[PlainEvent], at_s: float, ok: Any) -> None:
        into.append((RESET, at_s, bool(ok)))

    def _evict_blocks(self, into: list[PlainEvent], at_s: float, block_ids: Iterable[int]) -> None:
        into.append((EVICT_BLOCKS, at_s, list(block_ids)))

    def _gap(self, into: list[PlainEvent], at_s: float) -> None:
        self._sent.clear()
        self._prefixes.clear()
        into.append((GAP, at_s))

    def _adapter(self, into: list[PlainEvent], at_s: float, lora: Any) -> None:
        into.append((ADAPTER, at_s, adapter_of(lora)))

    def _open(self, request: Any, into: list[PlainEvent]) -> _Sent:
        request_id = request.request_id
        sent = self._sent.get(request_id)
        if sent is None:
            if len(self._sent) >= MOST_OPEN_REQUESTS:
                del self._sent[next(iter(self._sent))]
            plain = request in self._plain
            sent = self._sent[request_id] = _Sent(
                self._isolated and not (plain and self._content_keys is not None)
            )
            if not plain:
                keys = read_keys(request)
                adapter = None if keys.adapter is None else adapter_of(request.lora_request)
                into.append((OPENED, request_id, adapter, keys.salt, keys.image, keys.image_keys))
        return sent

    def _prove(self, sent: _Sent, request: Any, first_hash: Any, into: list[PlainEvent]) -> None:
        """Look at the first request that nothing isolates: if it is hashed otherwise, send its tokens, and all."""
        self._proven = True
        tokens = request.all_token_ids[: self._shape.hash_block_size]
        if self._content_keys is not None and not are_plain_hashes(self._content_keys, tokens, first_hash):
            self._content_keys = None
            sent.needs_tokens = self._isolated
            into.append((HASHING, None, None))

    def _prefix(self, sent: _Sent, hashes: Sequence[Any], found: int) -> tuple[Hashable | None, int]:
        """What was found, by its last hash, if it is known; else how many hashes will be."""
        last = getattr(hashes[found - 1], "hash_value", hashes[found - 1])
        if self._prefixes.get(last) is None:
            self._prefixes.add(last, found, True)
            return None, found
        sent.hashes, sent.last_hash = found, hashes[found - 1]
        return last, 0

    def _hashes(self, sent: _Sent, hashes: Sequence[Any]) -> tuple[int, list[Any]]:
        first = sent.hashes
        if first and (first > len(hashes) or hashes[first - 1] != sent.last_hash):
            # Not the list that it was: a session of streamed input went on with other tokens.
            first = sent.blocks = 0
        new: list[Any] = list(hashes[first:])
        if new:
            sent.last_hash = new[-1]
        sent.hashes = first + len(new)
        return first, plain_hashes(new)

    def _tokens(self, sent: _Sent, request: Any, known: int, end: int) -> tuple[int, list[int] | None]:
        start = max(sent.blocks, known)
        if start >= end or not sent.needs_tokens:
            return start, None
        size = self._shape.block_size
        tokens: list[int] = request.all_token_ids[start * size : end * size]
        sent.blocks = start + len(tokens) // size
        return start, tokens
