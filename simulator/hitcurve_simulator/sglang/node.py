"""A node of the radix tree: a run of pages that are only ever shared as a whole."""

from collections.abc import Hashable
from typing import Optional

__all__ = ["Node"]


class Node:
    """Pages below a parent. A page stands for ``page_size`` tokens and everything before them."""

    __slots__ = ("children", "hits", "locks", "made_at", "pages", "parent", "priority", "used_at")

    def __init__(self, parent: Optional["Node"], pages: list[Hashable], now: int, priority: int) -> None:
        self.parent = parent
        self.pages = pages
        self.children: dict[Hashable, Node] = {}
        """By the first page of each."""
        self.locks = 0
        """Requests that hold this node, by it or by a node below."""
        self.used_at = now
        self.made_at = now
        self.hits = 0
        """Requests that inserted it."""
        self.priority = priority
