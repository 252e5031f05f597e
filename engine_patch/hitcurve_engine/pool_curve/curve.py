"""What the hit rate would be in a pool of another size, estimated live from a sample of the blocks.

vLLM evicts the block that was used longest ago, and of a chain the tail before the head, since a request's blocks
become most recent tail first. So a prefix is found as far as its blocks are: each is found in a pool of C blocks
where fewer than C other blocks were used since, whatever became of those before it. That lets single blocks stand
for whole chains. Sampling by chain instead, at its root or by conversation, puts a system prompt that all requests
share wholly in or wholly out; docs/engine_patch.md has what that costs.

Every size is estimated as what the engine found, which is known of all requests, plus the difference that the
sampled blocks show between that pool and the engine (a control variate): what is found in either falls out of the
error, such as the blocks that everybody shares.

Sampling by the hash of the key: Waldspurger et al., SHARDS, FAST 2015.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from hitcurve_engine.pool_curve.layered_stack import LayeredStack
from hitcurve_engine.pool_curve.seen_sample import LAST_PLACE, PLACES, SeenSample, place_of
from hitcurve_engine.pool_curve.sizes import POOL_SIZES, RATIOS

__all__ = ["MOST_OPEN_REQUESTS", "PoolCurve", "PoolCurveSums"]

MOST_OPEN_REQUESTS: Final = 100_000


@dataclass(slots=True)
class PoolCurveSums:
    """Sums since the curve began; hit tokens / query tokens is the hit rate of a size."""

    query_tokens: int
    hit_tokens: dict[str, int]
    """By name of the size, rising with it. Estimates, which may waver; these never fall, as counters must not."""
    sampled_share: float
    """Of the blocks, those that are followed for the limited pools."""
    unlimited_sampled_share: float
    keys: int
    """Kept now, in both samples."""


@dataclass(slots=True)
class _OpenRequest:
    lookup: tuple[Sequence[Hashable], int, int] | None = None
    """The last one that was not scheduled yet: keys, query tokens, hit tokens."""
    judged: tuple[list[Hashable], list[float]] | None = None
    """Of that lookup: sampled blocks that the engine found, and tokens that each pool finds beyond it."""
    counts: bool = True
    """Whether its next scheduling is its first, and it may read the cache."""
    held: list[Hashable] = field(default_factory=list)
    """Sampled blocks in use, in chain order."""


class PoolCurve:
    """Follows the requests of one engine with one kind of blocks: ``pool_blocks`` usable ones of ``block_size``.

    Keeps at most about ``most_keys`` keys (some 250 bytes each, the key itself included), half of them for the
    pools up to 4 times the present one, half for the unlimited pool. Calls come in the order of the events, one
    thread. A reset empties the pools of all sizes.
    """

    def __init__(self, block_size: int, pool_blocks: int, most_keys: int) -> None:
        self._block_size = block_size
        largest = RATIOS[-1] * pool_blocks
        self._threshold = round(PLACES * min(1.0, most_keys / 2 / largest))
        self._share = self._threshold / PLACES
        self._stack = LayeredStack([max(1, round(ratio * pool_blocks * self._share)) for ratio in RATIOS])
        self._seen = SeenSample(max(1, most_keys // 2))
        self._open: dict[str, _OpenRequest] = {}
        self._query_tokens = 0
        self._hit_tokens = 0
        self._gains = [0.0] * len(POOL_SIZES)
        self._told = [0] * len(POOL_SIZES)

    def looked_up(
        self,
        request_id: str,
        keys: Sequence[Hashable] | None,
        query_tokens: int,
        hit_tokens: int,
        *,
        skipped: bool = False,
    ) -> None:
        """A lookup; of repeated ones the last one counts. Without keys every pool is taken to find what the engine
        found."""
        request = self._request(request_id)
        request.judged = None
        request.lookup = (keys or (), query_tokens, hit_tokens)
        if skipped:
            request.counts = False

    def scheduled(self, request_id: str) -> None:
        """The last lookup counts, unless the request was scheduled before; what it found is in use."""
        request = self._open.get(request_id)
        if request is None or request.lookup is None:
            return
        found, gains = self._judged(request, request.lookup)
        if request.counts:
            self._query_tokens += request.lookup[1]
            self._hit_tokens += request.lookup[2]
            self._gains = [before + gain for before, gain in zip(self._gains, gains, strict=True)]
        request.lookup, request.judged, request.counts = None, None, False
        request.held[:0] = found
        self._use(found)

    def stored(self, request_id: str, keys: Sequence[Hashable]) -> None:
        """The request's next blocks are cached. A lookup before is judged first, as the pools were then."""
        request = self._request(request_id)
        if request.lookup is not None:
            self._judged(request, request.lookup)
        sampled = [key for _, key in self._sampled(keys)]
        request.held.extend(sampled)
        self._use(sampled)

    def released(self, request_id: str, *, finished: bool) -> None:
        """The request gives its blocks back: it is over, or preempted."""
        request = self._open.get(request_id)
        if request is None:
            return
        self._use(request.held)
        request.held.clear()
        if finished:
            del self._open[request_id]

    def reset(self) -> None:
        """The cache was cleared."""
        self._stack.clear()
        self._seen.clear()

    def forget(self) -> None:
        """Events were lost: what was under way is given up."""
        self._open.clear()

    def sums(self) -> PoolCurveSums:
        """As they are now."""
        rising = accumulate((self._hit_tokens + gain for gain in self._gains), max)
        estimates = [min(round(max(tokens, 0.0)), self._query_tokens) for tokens in rising]
        self._told = [max(pair) for pair in zip(self._told, estimates, strict=True)]
        return PoolCurveSums(
            self._query_tokens,
            dict(zip(POOL_SIZES, self._told, strict=True)),
            self._share,
            self._seen.threshold / PLACES,
            len(self._stack) + len(self._seen),
        )

    def _sampled(self, keys: Sequence[Hashable]) -> list[tuple[int, Hashable]]:
        below = max(self._threshold, self._seen.threshold)
        # place_of() by hand: this runs for every block of every request.
        return [(index, key) for index, key in enumerate(keys) if hash(key) & LAST_PLACE < below]

    def _judged(
        self, request: _OpenRequest, lookup: tuple[Sequence[Hashable], int, int]
    ) -> tuple[list[Hashable], list[float]]:
        """Compare, block by block, what the engine found with what each pool holds; once for each lookup."""
        if request.judged is not None:
            return request.judged
        keys, query_tokens, hit_tokens = lookup
        reusable = max(query_tokens - 1, 0) // self._block_size
        found_blocks = hit_tokens // self._block_size
        smallest = [0] * (len(RATIOS) + 1)
        found = []
        found_followed = unlimited = 0
        for index, key in self._sampled(keys[:reusable]):
            is_found = index < found_blocks
            if is_found:
                found.append(key)
            place = place_of(key)
            if place < self._threshold:
                smallest[self._stack.smallest_with(key)] += 1
                found_followed += is_found
            if place < self._seen.threshold:
                unlimited += (key in self._seen) - is_found
        size = self._block_size
        gains = [(held - found_followed) * size / self._share for held in accumulate(smallest[:-1])]
        gains.append(unlimited * size * PLACES / self._seen.threshold)
        request.judged = (found, gains)
        return request.judged

    def _use(self, keys: Sequence[Hashable]) -> None:
        """Blocks of a chain become most recent, tail first."""
        threshold = self._threshold
        self._stack.use([key for key in reversed(keys) if hash(key) & LAST_PLACE < threshold])
        self._seen.add(keys)

    def _request(self, request_id: str) -> _OpenRequest:
        request = self._open.get(request_id)
        if request is None:
            if len(self._open) >= MOST_OPEN_REQUESTS:
                del self._open[next(iter(self._open))]
            request = self._open[request_id] = _OpenRequest()
        return request
