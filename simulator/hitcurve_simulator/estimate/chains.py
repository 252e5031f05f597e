"""Rows of traces to chains of blocks, under each of the two definitions of a hit."""

from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Bools, Hashes, Ints
from hitcurve_simulator.estimate.prefix_hashes import keyed, prefix_hashes
from hitcurve_simulator.traces import TraceRow

__all__ = ["Chains", "Namespace", "chains_of"]

Namespace = tuple[str | None, str | None]
"""Adapter and salt."""

# Rows that bring tokens are hashed in portions of about this many tokens, which bounds the arrays in between.
_PORTION_TOKENS = 1 << 20
_SMALLEST, _LARGEST = -(1 << 62), 1 << 62
_TEXT_SALT = 0x7E57


@dataclass(frozen=True, slots=True)
class Chains:
    """The same traffic twice: ``bound`` (every block of a prompt, a partial last one included) and ``engine``
    (full blocks; a prompt is never found whole; with outputs: what they fill is left behind too)."""

    bound: Accesses
    engine: Accesses
    namespaces: tuple[Namespace, ...]
    namespace_of: Ints
    """Of each request, an index of ``namespaces``."""
    reads: Bools
    """Whether the request counts as a lookup; others only leave their blocks behind."""


def chains_of(
    rows: Sequence[TraceRow],
    block_size: int,
    ids_size: int,
    outputs: bool = False,
    salts: Sequence[int] | None = None,
    warm_up: int = 0,
    unnamed_from: int = 0,
) -> Chains:
    """Chains of all rows. Hash ids name blocks of ``ids_size`` tokens, of which ``block_size`` is a multiple.

    ``outputs``: full blocks of prompt and output stay behind, as an engine keeps them. ``salts``, one a row, keep
    apart rows whose ids mean different things. The first ``warm_up`` rows only leave their blocks behind. Names
    depend on nothing but what a block holds, so that rows may be named in parts; blocks that nobody names are
    numbered from ``unnamed_from``.
    """
    builder = _Builder(block_size, ids_size, salts or [0] * len(rows), _unnamed=unnamed_from)
    lengths = np.array([row.request.prompt_tokens for row in rows], dtype=np.int64)
    reads = np.array([not row.request.skip_reading_prefix_cache for row in rows], dtype=np.bool_)
    reads[:warm_up] = False
    names, index = _namespaces(rows)
    tokens = np.where(reads, lengths, 0)
    prompt_starts, prompt_names = builder.build(rows, [_prompt_blocks(row, block_size, ids_size) for row in rows])
    partial = np.diff(prompt_starts) > lengths // block_size
    codes = _namespace_codes(names)[index]
    bound = Accesses(
        block_size,
        prompt_starts,
        prompt_names,
        keyed(prompt_names, np.repeat(codes, np.diff(prompt_starts))),
        np.where(reads, np.diff(prompt_starts), 0),
        tokens,
        np.where(partial, lengths % block_size, block_size),
    )
    engine = bound.without_last_blocks(partial, np.where(lengths % block_size == 0, 0, block_size))
    if outputs and any(row.output_tokens for row in rows):
        computed = [row.request.prompt_tokens + max(row.output_tokens - 1, 0) for row in rows]
        starts, all_names = builder.build(rows, [length // block_size for length in computed], outputs=True)
        keys = keyed(all_names, np.repeat(codes, np.diff(starts)))
        engine = Accesses(block_size, starts, all_names, keys, engine.queried, tokens, engine.last_block_tokens)
    return Chains(bound, engine, names, index, reads)


@dataclass(slots=True)
class _Builder:
    """Names the blocks of rows; blocks that nobody names get a name of their own."""

    block_size: int
    ids_size: int
    salts: Sequence[int]
    _odd: dict[Hashable, int] = field(default_factory=dict)
    _unnamed: int = 0

    def build(self, rows: Sequence[TraceRow], blocks: Sequence[int], outputs: bool = False) -> tuple[Ints, Hashes]:
        """Starts and names of the first ``blocks`` blocks of each row, where ``outputs``, beyond the prompt."""
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(blocks, out=starts[1:])
        names = np.empty(int(starts[-1]), dtype=np.uint64)
        for first, end, with_tokens in _portions(rows):
            portion, wanted = rows[first:end], blocks[first:end]
            salts = self.salts[first:end]
            build = self._of_tokens if with_tokens else self._of_ids
            names[starts[first] : starts[end]] = build(portion, wanted, salts, outputs)
        return starts, names

    def _of_ids(
        self, rows: Sequence[TraceRow], blocks: Sequence[int], salts: Sequence[int], outputs: bool
    ) -> Hashes:
        per_block = self.block_size // self.ids_size
        items, lengths = array("q"), []
        for row, wanted in zip(rows, blocks, strict=True):
            ids = (row.request.block_contents if outputs else row.block_ids) or ()
            length = row.request.prompt_tokens + (max(row.output_tokens - 1, 0) if outputs else 0)
            needed = min(wanted * per_block, -(-length // self.ids_size))
            self._extend(items, ids[:needed], needed)
            lengths.append(needed)
        starts = _starts(lengths)
        salted = np.array(salts, dtype=np.uint64) if any(self.salts) else None
        hashes = prefix_hashes(np.frombuffer(items, dtype=np.int64), starts, salted)
        if per_block == 1:
            return hashes
        return hashes[_ends(starts, lengths, blocks, per_block)]

    def _of_tokens(
        self, rows: Sequence[TraceRow], blocks: Sequence[int], salts: Sequence[int], outputs: bool
    ) -> Hashes:
        items, lengths = array("q"), []
        for row, wanted in zip(rows, blocks, strict=True):
            tokens = row.request.prompt_token_ids or ()
            _extend_tokens(items, tokens)
            length = len(tokens)
            if outputs:
                _extend_tokens(items, row.output_token_ids)
                length += len(row.output_token_ids)
                needed = wanted * self.block_size
                items.extend(self._own(max(needed - length, 0)))
                length = max(needed, length)
            lengths.append(length)
        starts = _starts(lengths)
        salt = np.full(len(rows), _TEXT_SALT, dtype=np.uint64)
        hashes = prefix_hashes(np.frombuffer(items, dtype=np.int64), starts, salt)
        return hashes[_ends(starts, lengths, blocks, self.block_size)]

    def _extend(self, items: "array[int]", ids: Sequence[Hashable], needed: int) -> None:
        before = len(items)
        try:
            items.fromlist(ids if isinstance(ids, list) else list(ids))  # type: ignore[arg-type]
        except (TypeError, OverflowError):
            del items[before:]
            items.extend(self._code(value) for value in ids)
        items.extend(self._own(needed - (len(items) - before)))

    def _code(self, value: Hashable) -> int:
        if isinstance(value, int) and _SMALLEST < value < _LARGEST:
            return value
        if value not in self._odd:
            self._odd[value] = _SMALLEST - 1 - (_digest(value) >> 2)
        return self._odd[value]

    def _own(self, count: int) -> range:
        """Numbers that no other block has."""
        self._unnamed += count
        return range(_LARGEST + self._unnamed - count, _LARGEST + self._unnamed)


def _prompt_blocks(row: TraceRow, block_size: int, ids_size: int) -> int:
    length = row.request.prompt_tokens
    named = row.prompt_blocks(ids_size) * ids_size >= length
    return -(-length // block_size) if named else length // block_size


def _extend_tokens(items: "array[int]", tokens: Sequence[int]) -> None:
    if isinstance(tokens, array):
        items.extend(tokens)
    else:
        items.fromlist(list(tokens))


def _portions(rows: Sequence[TraceRow]) -> Iterator[tuple[int, int, bool]]:
    """Stretches of rows that all bring tokens, or all do not, of a bounded number of tokens."""
    first = tokens = 0
    kind = False
    for index, row in enumerate(rows):
        brings = row.request.prompt_token_ids is not None
        if index > first and (brings != kind or tokens > _PORTION_TOKENS):
            yield first, index, kind
            first, tokens = index, 0
        kind = brings
        tokens += row.request.prompt_tokens if brings else 0
    yield first, len(rows), kind


def _starts(lengths: Sequence[int]) -> Ints:
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _ends(starts: Ints, lengths: Sequence[int], blocks: Sequence[int], size: int) -> Ints:
    """Places of the last item of each block; the last block of a row ends where its items end at the latest."""
    counts = np.array(blocks, dtype=np.int64)
    block = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    within = np.minimum((block + 1) * size, np.repeat(np.array(lengths, dtype=np.int64), counts))
    ends: Ints = np.repeat(starts[:-1], counts) + within - 1
    return ends


def _namespaces(rows: Sequence[TraceRow]) -> tuple[tuple[Namespace, ...], Ints]:
    known: dict[Namespace, int] = {}
    of_row = [known.setdefault((row.request.adapter, row.request.cache_salt), len(known)) for row in rows]
    return tuple(known), np.array(of_row, dtype=np.int64)


def _namespace_codes(names: Sequence[Namespace]) -> Hashes:
    """A number for each namespace; 0 for the one without adapter and salt."""
    return np.array([0 if name == (None, None) else _digest(name) for name in names], dtype=np.uint64)


def _digest(value: Hashable) -> int:
    """64 bits that depend on the value alone."""
    return int.from_bytes(blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
