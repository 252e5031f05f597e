"""A request inside SGLang's cache: what of its tokens the tree owns and what is its own."""

from hitcurve_simulator.sglang.namespaces import Namespace
from hitcurve_simulator.sglang.node import Node
from hitcurve_simulator.vllm import Request, RequestState

__all__ = ["RadixRequest"]


class RadixRequest(RequestState):
    """Read it freely; only the manager changes it. ``keys`` holds the chained key of each full page."""

    __slots__ = ("allocated_pages", "inserted_pages", "locked", "namespace", "owned_by_tree", "priority")

    def __init__(self, request: Request, namespace: Namespace, priority: int) -> None:
        super().__init__(request)
        self.namespace = namespace
        self.priority = priority
        self.locked: Node | None = None
        """The deepest node it holds; None while it waits."""
        self.allocated_pages = 0
        """Pages that hold its tokens, those of the tree included."""
        self.owned_by_tree = 0
        """How many of them, from the start, the tree owns."""
        self.inserted_pages = 0
        """Pages it ever inserted: they count no second hit."""
