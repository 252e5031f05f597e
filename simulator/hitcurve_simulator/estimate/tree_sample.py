"""A sample of traffic by whole prefix trees, drawn while the traffic is read.

Loose blocks or requests would cut the reuse that is to be measured. What is drawn is hence a tree: all requests
that agree up to the first block that not everybody shares. The blocks before it, the *trunk* (system prompts that
many requests begin with), are followed for every request, drawn or not, since they would be in every tree.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.arrays import Bools, Hashes, Ints
from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.prefix_hashes import mixed
from hitcurve_simulator.traces import TraceRow

__all__ = ["Sampled", "TreeSample", "drawn"]

PORTION_ROWS = 4096
"""Requests that are held at once, as read."""
TRUNK_SHARE = 0.01
"""A block that more than this share of the first portion's requests begins with is trunk."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Requests with the blocks that are followed: of drawn trees all, of others those of the trunk.

    For each request ``trunk`` counts the blocks of its chain in the trunk and ``behind`` those behind it, followed
    or not; ``tree`` names its tree, ``drawn`` says whether it is in the sample. ``accesses.tokens`` are those of
    the whole prompt, drawn or not, and ``blocks`` counts the looked-up blocks behind the trunk of all requests.
    """

    accesses: Accesses
    trunk: Ints
    behind: Ints
    tree: Hashes
    drawn: Bools
    blocks: int

    @property
    def tokens_behind(self) -> Ints:
        """Tokens of each prompt behind the trunk."""
        held = np.minimum(self.trunk * self.accesses.block_size, self.accesses.tokens)
        behind: Ints = self.accesses.tokens - held
        return behind

    def only(self, chosen: Bools) -> "Sampled":
        """The same with fewer drawn requests: of the others the trunk is left."""
        keep = np.where(chosen & self.drawn, self.accesses.lengths, np.minimum(self.trunk, self.accesses.lengths))
        return Sampled(
            _shortened(self.accesses, keep),
            self.trunk,
            self.behind,
            self.tree,
            self.drawn & chosen,
            self.blocks,
        )


@dataclass(slots=True)
class TreeSample:
    """Draws trees: ``share`` of them, by their names and ``seed``. Used once, for one stream of rows."""

    share: float
    block_size: int
    ids_size: int
    outputs: bool = False
    seed: int = 0
    _trunk: Hashes | None = None
    _bound: list[Sampled] = field(default_factory=list)
    _engine: list[Sampled] = field(default_factory=list)
    _rows: int = 0

    def take(self, rows: Iterable[TraceRow], salt: int = 0) -> None:
        """Read rows, portion after portion; ``salt`` keeps their ids apart from those of other calls."""
        for portion in _portions(rows):
            chains = chains_of(
                portion,
                self.block_size,
                self.ids_size,
                self.outputs,
                [salt] * len(portion),
                unnamed_from=self._rows << 24,
            )
            self._rows += len(portion)
            if self._trunk is None:
                self._trunk = _trunk_of(chains.bound)
            trunk = _leading(chains.bound, np.isin(chains.bound.names, self._trunk))
            tree = _trees(chains.bound, trunk, first=self._rows)
            chosen = drawn(tree, self.share, self.seed)
            for accesses, into in ((chains.bound, self._bound), (chains.engine, self._engine)):
                within = np.minimum(trunk, accesses.lengths)
                asked = int(np.maximum(accesses.queried - within, 0).sum())
                behind = accesses.lengths - within
                keep = np.where(chosen, accesses.lengths, within)
                into.append(Sampled(_shortened(accesses, keep), within, behind, tree, chosen, asked))

    def bound(self) -> Sampled:
        """All that was read, with all blocks counted."""
        return _joined(self._bound)

    def engine(self) -> Sampled:
        """All that was read, engine-like."""
        return _joined(self._engine)


def drawn(trees: Hashes, share: float, seed: int) -> Bools:
    """Which of the trees are drawn: the same ones in every request and under both definitions."""
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    chosen: Bools = mixed(trees ^ mixed(np.array([seed], dtype=np.uint64))) <= limit
    return chosen


def _portions(rows: Iterable[TraceRow]) -> Iterator[Sequence[TraceRow]]:
    iterator = iter(rows)
    while portion := list(islice(iterator, PORTION_ROWS)):
        yield portion


def _trunk_of(accesses: Accesses) -> Hashes:
    names, counts = np.unique(accesses.names, return_counts=True)
    trunk: Hashes = names[counts > max(TRUNK_SHARE * accesses.requests, 1)]
    return trunk


def _leading(accesses: Accesses, marked: Bools) -> Ints:
    """Marked blocks at the head of each chain."""
    unmarked = np.append(np.flatnonzero(~marked), accesses.blocks)
    first = unmarked[np.searchsorted(unmarked, accesses.starts[:-1])]
    leading: Ints = np.minimum(first, accesses.starts[1:]) - accesses.starts[:-1]
    return leading


def _trees(accesses: Accesses, trunk: Ints, first: int) -> Hashes:
    """The name of the first block behind the trunk; a request that ends in the trunk is a tree of its own."""
    place = accesses.starts[:-1] + trunk
    inside = trunk < accesses.lengths
    numbers = np.arange(first, first + accesses.requests, dtype=np.uint64)
    trees = mixed(numbers)
    trees[inside] = accesses.names[place[inside]]
    return trees


def _shortened(accesses: Accesses, keep: Ints) -> Accesses:
    """Only the first ``keep`` blocks of each chain."""
    within = np.arange(accesses.blocks) - np.repeat(accesses.starts[:-1], accesses.lengths)
    kept = within < np.repeat(keep, accesses.lengths)
    starts = np.concatenate(([0], np.cumsum(keep)))
    names = accesses.names[kept]
    whole = keep >= accesses.queried
    return Accesses(
        accesses.block_size,
        starts,
        names,
        names if accesses.keys is accesses.names else accesses.keys[kept],
        np.minimum(accesses.queried, keep),
        accesses.tokens,
        np.where(whole, accesses.last_block_tokens, accesses.block_size),
    )


def _joined(parts: Sequence[Sampled]) -> Sampled:
    lengths = np.concatenate([part.accesses.lengths for part in parts])
    names = np.concatenate([part.accesses.names for part in parts])
    same = all(part.accesses.keys is part.accesses.names for part in parts)
    return Sampled(
        Accesses(
            parts[0].accesses.block_size,
            np.concatenate(([0], np.cumsum(lengths))),
            names,
            names if same else np.concatenate([part.accesses.keys for part in parts]),
            np.concatenate([part.accesses.queried for part in parts]),
            np.concatenate([part.accesses.tokens for part in parts]),
            np.concatenate([part.accesses.last_block_tokens for part in parts]),
        ),
        np.concatenate([part.trunk for part in parts]),
        np.concatenate([part.behind for part in parts]),
        np.concatenate([part.tree for part in parts]),
        np.concatenate([part.drawn for part in parts]),
        sum(part.blocks for part in parts),
    )
