"""SGLang's radix tree (``srt/mem_cache/radix_cache.py`` and ``unified_cache/unified_tree_core.py``, 0.5.22).

Keys are runs of chained page keys: two runs share exactly the pages they have in common from the start. The
clock is a counter that every touch moves, so no two leaves are ever equally old.
"""

import heapq
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from hitcurve_simulator.sglang.node import Node
from hitcurve_simulator.sglang.policies import Policy, rank_of

__all__ = ["Core", "RadixTree"]

Core = Literal["unified", "legacy"]
"""``unified`` is SGLang's default cache, in Python or Rust; ``legacy`` the older ``RadixCache``."""


class RadixTree:
    """Match, insert, lock, evict. Sizes count pages."""

    def __init__(self, policy: Policy = "lru", core: Core = "unified") -> None:
        self.root = Node(None, [], 0, -sys.maxsize)
        self.evictable_pages = 0
        """Pages of nodes that nobody locks."""
        self.locked_pages = 0
        self._rank = rank_of(policy)
        self._keep_birth_on_split = core == "unified"
        self._leaves: dict[Node, None] = {}
        self._now = 0

    def match(self, pages: Sequence[Hashable]) -> tuple[int, Node]:
        """Pages of the longest stored prefix, and the node it ends at; a node is split where it ends inside.

        The whole path becomes the most recent. A match of no pages touches nothing.
        """
        node, matched = self.root, 0
        if not pages:
            return 0, node
        while matched < len(pages) and (child := node.children.get(pages[matched])) is not None:
            common = _common(child.pages, pages, matched)
            matched += common
            if common < len(child.pages):
                node = self._split(child, common)
                break
            node = child
        self._touch_path(node)
        return matched, node

    def insert(self, pages: Sequence[Hashable], inserted: int = 0, priority: int = 0) -> int:
        """Store a run; returns how many of its pages were there before.

        ``inserted``: pages that this request stored earlier, which count no second hit. ``priority`` raises
        every node of the path.
        """
        node, matched = self.root, 0
        node.priority = max(node.priority, priority)
        while matched < len(pages) and (child := node.children.get(pages[matched])) is not None:
            child.used_at = self._tick()
            common = _common(child.pages, pages, matched)
            matched += common
            node = self._split(child, common) if common < len(child.pages) else child
            node.priority = max(node.priority, priority)
            node.hits += matched > inserted
        if matched < len(pages):
            self._add_leaf(node, list(pages[matched:]), priority, len(pages) > inserted)
        return matched

    def lock(self, node: Node) -> None:
        """Keep the node and everything above it from being evicted."""
        while node.parent is not None:
            if not node.locks:
                self.evictable_pages -= len(node.pages)
                self.locked_pages += len(node.pages)
                self._leaves.pop(node, None)
            node.locks += 1
            node = node.parent

    def unlock(self, node: Node) -> None:
        """Undo one ``lock``."""
        while node.parent is not None:
            node.locks -= 1
            if not node.locks:
                self.evictable_pages += len(node.pages)
                self.locked_pages -= len(node.pages)
                if not node.children:
                    self._leaves[node] = None
            node = node.parent

    def evict(self, pages: int, on_evicted: Callable[[Node], None]) -> int:
        """Drop whole leaves, by the policy, until at least so many pages are gone or no leaf is left.

        A parent that becomes a leaf takes part at once. Returns the pages dropped.
        """
        rank, dropped = self._rank, 0
        # The position breaks no tie that matters: leaves never rank equal.
        heap = [(rank(leaf), number, leaf) for number, leaf in enumerate(self._leaves)]
        heapq.heapify(heap)
        number = len(heap)
        while dropped < pages and heap:
            leaf = heapq.heappop(heap)[2]
            dropped += len(leaf.pages)
            parent = self._drop_leaf(leaf)
            on_evicted(leaf)
            if parent in self._leaves:
                number += 1
                heapq.heappush(heap, (rank(parent), number, parent))
        return dropped

    def _split(self, child: Node, at: int) -> Node:
        """Put a node over ``child`` that takes its first ``at`` pages and inherits the rest."""
        parent = child.parent
        assert parent is not None, "the root has no pages to split"
        upper = Node(parent, child.pages[:at], self._tick(), child.priority)
        if self._keep_birth_on_split:
            upper.made_at = child.made_at
        # The rest keeps the time of this walk; what the walk makes is newer.
        child.used_at = self._tick()
        upper.hits, upper.locks = child.hits, child.locks
        child.pages = child.pages[at:]
        child.parent = upper
        upper.children[child.pages[0]] = child
        parent.children[upper.pages[0]] = upper
        return upper

    def _add_leaf(self, parent: Node, pages: list[Hashable], priority: int, counts: bool) -> None:
        leaf = Node(parent, pages, self._tick(), priority)
        leaf.hits = int(counts)
        parent.children[pages[0]] = leaf
        self._leaves.pop(parent, None)
        self._leaves[leaf] = None
        self.evictable_pages += len(pages)

    def _drop_leaf(self, leaf: Node) -> Node:
        parent = leaf.parent
        assert parent is not None, "the root is no leaf"
        del self._leaves[leaf]
        del parent.children[leaf.pages[0]]
        self.evictable_pages -= len(leaf.pages)
        if parent.parent is not None and not parent.children and not parent.locks:
            self._leaves[parent] = None
        return parent

    def _touch_path(self, node: Node | None) -> None:
        now = self._tick()
        while node is not None:
            node.used_at = now
            node = node.parent

    def _tick(self) -> int:
        self._now += 1
        return self._now


def _common(stored: list[Hashable], wanted: Sequence[Hashable], start: int) -> int:
    """Pages that both runs share; chained keys that differ once differ ever after."""
    low, high = 0, min(len(stored), len(wanted) - start)
    if stored[high - 1] == wanted[start + high - 1]:
        return high
    while low < high:
        middle = (low + high) // 2
        if stored[middle] == wanted[start + middle]:
            low = middle + 1
        else:
            high = middle
    return low
