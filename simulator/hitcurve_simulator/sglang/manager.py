"""SGLang's cache at the level of requests: match, allocate, checkpoint, release (0.5.22).

``srt/mem_cache/common.py`` and ``allocation.py`` (evict the shortfall, allocate by pages),
``unified_radix_cache.py`` and ``radix_cache.py`` (``checkpoint``: insert, split at the prompt's end, match again,
move the lock), ``srt/managers/schedule_batch.py`` (the namespace, at most all tokens but the last one).
"""

from collections.abc import Sequence

from hitcurve_simulator.sglang.namespaces import Namespace, SharedNamespaces
from hitcurve_simulator.sglang.node import Node
from hitcurve_simulator.sglang.policies import Policy
from hitcurve_simulator.sglang.request import RadixRequest
from hitcurve_simulator.sglang.tree import Core, RadixTree
from hitcurve_simulator.vllm import CacheObserver, InterningHasher, Request
from hitcurve_simulator.vllm.block_keys import block_contents

__all__ = ["RadixCache"]

_HIGHEST_PRIORITY = (1 << 63) - 1


class RadixCache:
    """A pool of pages and the tree over it.

    One request: ``track``, ``start``, ``grow`` for each further chunk or decoded token (after ``append_output``),
    ``checkpoint`` when a chunk of the prompt is computed, ``finish``.
    """

    def __init__(
        self,
        num_pages: int | None,
        page_size: int = 1,
        policy: Policy = "lru",
        core: Core = "unified",
        observer: CacheObserver | None = None,
    ) -> None:
        """``num_pages`` None is a pool without a limit."""
        self.num_pages = num_pages
        self.page_size = page_size
        self.observer = observer
        self.evicted_pages = 0
        self.shared_namespaces = SharedNamespaces()
        self._tree = RadixTree(policy, core)
        self._policy, self._core = policy, core
        self._private_pages = 0
        self._running = 0
        self._hasher = InterningHasher()
        self._making_room_for = ""

    @property
    def free_pages(self) -> int | None:
        """Pages that hold nothing; None where there is no limit."""
        if self.num_pages is None:
            return None
        return self.num_pages - self._tree.evictable_pages - self._tree.locked_pages - self._private_pages

    @property
    def evictable_pages(self) -> int:
        """Pages of the tree that no request holds."""
        return self._tree.evictable_pages

    @property
    def locked_pages(self) -> int:
        """Pages of the tree that requests hold."""
        return self._tree.locked_pages

    def track(self, request: Request, extra_key: str | None = None, priority: int = 0) -> RadixRequest:
        """State of a new request."""
        namespace = Namespace(extra_key, request.adapter, request.cache_salt)
        self.shared_namespaces.note(namespace)
        state = RadixRequest(request, namespace, priority)
        self._extend_keys(state)
        return state

    def start(self, state: RadixRequest, tokens: int, room_tokens: int = 0) -> bool:
        """Match, lock what was found and allocate ``tokens`` more (at least one), with room for
        ``room_tokens`` behind them.

        False where the pages are not there even after evicting all that may be: then only the recency of what was
        found has changed.
        """
        usable = 0 if state.request.skip_reading_prefix_cache else (state.num_tokens - 1) // self.page_size
        matched, node = self._tree.match(state.keys[:usable])
        hit_tokens = matched * self.page_size
        if self.observer is not None and not state.request.skip_reading_prefix_cache:
            self.observer.looked_up(state, hit_tokens)
        self._tree.lock(node)
        state.allocated_pages = state.owned_by_tree = matched
        tokens = min(tokens, state.num_tokens - hit_tokens)
        if not self._allocate(state, hit_tokens, tokens + room_tokens):
            self._tree.unlock(node)
            state.allocated_pages = state.owned_by_tree = 0
            return False
        state.locked = node
        state.status = "running"
        state.computed_tokens = hit_tokens + tokens
        self._running += 1
        if state.hit_tokens is None and not state.request.skip_reading_prefix_cache:
            state.hit_tokens = hit_tokens
        if self.observer is not None:
            self.observer.scheduled(state, hit_tokens)
        return True

    def grow(self, state: RadixRequest, tokens: int, decoding: bool = False) -> bool:
        """Allocate the next tokens of the sequence, a chunk of the prompt or one decoded token.

        False, with nothing allocated, where pages are missing.
        """
        if not self._allocate(state, state.computed_tokens, tokens, decoding):
            return False
        state.computed_tokens += tokens
        return True

    def use_room(self, state: RadixRequest, tokens: int) -> None:
        """Compute tokens that ``start`` made room for."""
        state.computed_tokens += tokens

    def append_output(self, state: RadixRequest, token_ids: Sequence[int]) -> None:
        """Add generated tokens to the sequence; ``grow`` gives them room."""
        state.output_token_ids.extend(token_ids)
        state.num_tokens += len(token_ids)
        self._extend_keys(state)

    def checkpoint(self, state: RadixRequest) -> None:
        """Give the computed full pages to the tree and hold them there."""
        pages = state.keys[: state.computed_tokens // self.page_size]
        known = self._tree.insert(pages, state.inserted_pages, state.priority)
        self._settle(state, known, len(pages))
        prompt = state.prompt_tokens // self.page_size
        if 0 < prompt < len(pages):
            # Splits the leaf, so that an output can be evicted without its prompt.
            self._tree.insert(pages[:prompt], prompt, min(state.priority + 1, _HIGHEST_PRIORITY))
        _, node = self._tree.match(pages)
        self._move_lock(state, node)

    def release(self, state: RadixRequest) -> None:
        """Let go of everything without inserting it: a retracted or failed request."""
        self._private_pages -= state.allocated_pages - state.owned_by_tree
        state.allocated_pages = state.owned_by_tree = 0
        self._move_lock(state, None)
        self._running -= 1
        state.computed_tokens = 0
        state.status = "waiting"

    def retract(self, state: RadixRequest) -> None:
        """Take a running request's pages so that it must start anew. It inserts nothing."""
        self.release(state)
        state.inserted_pages = 0
        state.preemptions += 1
        state.status = "preempted"
        if self.observer is not None:
            self.observer.preempted(state)

    def finish(self, state: RadixRequest) -> None:
        """End a request: its computed full pages stay in the tree."""
        self.checkpoint(state)
        self.release(state)
        state.status = "finished"
        if self.observer is not None:
            self.observer.finished(state)

    def make_room(self, tokens: int) -> None:
        """Evict until so many tokens are free, or nothing evictable is left."""
        free = self.free_pages
        if free is None or free * self.page_size >= tokens:
            return
        shortfall = -(-(tokens - free * self.page_size) // self.page_size)
        self._tree.evict(shortfall, self._report_eviction)

    def reset(self) -> bool:
        """Drop the tree; refused (False) while a request runs."""
        done = not self._running
        if done:
            self._tree = RadixTree(self._policy, self._core)
        if self.observer is not None:
            self.observer.reset(done)
        return done

    def _allocate(self, state: RadixRequest, held_tokens: int, tokens: int, decoding: bool = False) -> bool:
        """Pages for ``tokens`` behind ``held_tokens``.

        The engine does not look at how full the last page is: it clears room for a chunk and one page more, and
        for a whole page where one token is decoded.
        """
        size = self.page_size
        needed = max(-(-(held_tokens + tokens) // size) - state.allocated_pages, 0)
        if (free := self.free_pages) is not None:
            if needed > free + self._tree.evictable_pages:
                return False
            self._making_room_for = state.request_id
            self.make_room(tokens if size == 1 else size if decoding else tokens + size)
        state.allocated_pages += needed
        self._private_pages += needed
        return True

    def _settle(self, state: RadixRequest, known: int, pages: int) -> None:
        """After an insert: the tree owns these pages; copies of what it knew before are freed."""
        self._private_pages -= pages - state.owned_by_tree
        if self.observer is not None and known < pages:
            self.observer.stored(state, known, pages)
        state.owned_by_tree = pages
        state.inserted_pages = max(state.inserted_pages, pages)

    def _move_lock(self, state: RadixRequest, node: Node | None) -> None:
        """Hold another node; the old one is let go first, as nothing is evicted in between."""
        if state.locked is not None:
            self._tree.unlock(state.locked)
        if node is not None:
            self._tree.lock(node)
        state.locked = node

    def _extend_keys(self, state: RadixRequest) -> None:
        first, end = len(state.keys), state.num_tokens // self.page_size
        if first >= end:
            return
        parent = state.keys[-1] if state.keys else self._hasher(None, "namespace", state.namespace.tree_key)
        state.keys.extend(self._hasher.chain(parent, block_contents(state, first, end, self.page_size)))

    def _report_eviction(self, node: Node) -> None:
        self.evicted_pages += len(node.pages)
        if self.observer is not None:
            for key in node.pages:
                self.observer.evicted(key, True, self._making_room_for)
