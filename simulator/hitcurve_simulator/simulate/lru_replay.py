"""Rows through the plain LRU rule of trace studies, with its block and token rates."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from hitcurve_simulator.lru import BlockLru, Refresh
from hitcurve_simulator.simulate.result import ServedRequest, SimulationResult
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import InterningHasher

__all__ = ["LruReplay"]


class LruReplay:
    """Serial replay. A hit block counts as its tokens, a partial last one as what the prompt has left."""

    def __init__(self, block_size: int, pool_blocks: int | None, refresh: Refresh = "tail_first") -> None:
        self._block_size = block_size
        self._lru = BlockLru(pool_blocks, refresh)
        self._hasher = InterningHasher()
        self._contents = InterningHasher()
        self._content_of: dict[Hashable, Hashable] = {}
        self._cached_contents: Counter[Hashable] = Counter()
        self._misses = {"compulsory": 0, "capacity": 0, "isolated": 0, "stranded": 0}

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = lambda: None) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each."""
        result = SimulationResult()
        hit_blocks = query_blocks = 0
        for row in rows:
            hits, blocks, hit_tokens = self._serve(row)
            hit_blocks += hits
            query_blocks += blocks
            result.served.append(ServedRequest(row, row.request.prompt_tokens, hit_tokens))
            on_row()
        result.evicted_blocks = self._lru.evictions
        result.miss_tokens = dict(self._misses)
        result.check_sum()
        result.details = {
            "query_blocks": query_blocks,
            "hit_blocks": hit_blocks,
            "block_hit_rate": hit_blocks / query_blocks if query_blocks else None,
        }
        return result

    def _serve(self, row: TraceRow) -> tuple[int, int, int]:
        """Hit blocks, query blocks, hit tokens of one request."""
        length, size = row.request.prompt_tokens, self._block_size
        content_keys = self._contents.chain(None, _contents(row, size))
        namespace = (("lora", row.request.adapter, ""), ("cache_salt", row.request.cache_salt))
        keys = self._hasher.chain(self._hasher(None, "namespace", namespace), content_keys)
        known = [self._reason(key, content) for key, content in zip(keys, content_keys, strict=True)]
        hits, evicted = self._lru.request(keys)
        hit_tokens = min(hits * size, length)
        for index in range(hits, len(keys)):
            self._misses[known[index]] += min(size, length - index * size)
        # Ids that name full blocks only: nothing is known of the rest of the prompt.
        self._misses["compulsory"] += max(length - len(keys) * size, 0)
        for key, content, reason in zip(keys, content_keys, known, strict=True):
            self._content_of[key] = content
            self._cached_contents[content] += reason != "stranded"
        self._cached_contents.subtract(self._content_of[key] for key in evicted)
        return hits, len(keys), hit_tokens

    def _reason(self, key: Hashable, content: Hashable) -> str:
        """Why the block is missed, should it lie behind the leading run: the state before this request."""
        if key in self._lru:
            return "stranded"
        if key in self._content_of:
            return "capacity"
        return "isolated" if self._cached_contents[content] > 0 else "compulsory"


def _contents(row: TraceRow, size: int) -> list[Hashable]:
    """Content of every block of the prompt, the partial last one included."""
    length = row.request.prompt_tokens
    tokens = row.request.prompt_token_ids
    if tokens is not None:
        return [tuple(tokens[at : at + size]) for at in range(0, length, size)]
    blocks = row.prompt_blocks(size)
    named: list[Hashable] = list(row.block_ids or ())[:blocks]
    return [*named, *(("only in", row.line, index) for index in range(len(named), blocks))]
