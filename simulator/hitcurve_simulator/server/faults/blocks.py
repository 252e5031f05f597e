"""Defects in how blocks are looked up, kept, freed and evicted."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hitcurve_simulator.server.clock import Clock
from hitcurve_simulator.server.engine import Engine, EngineRecorder
from hitcurve_simulator.server.sequence import Sequence as Sample
from hitcurve_simulator.server.time_model import TimeModel
from hitcurve_simulator.vllm import CacheManager, RequestState, Scheduler, StepOutcome
from hitcurve_simulator.vllm.block_pool import BlockPool
from hitcurve_simulator.vllm.free_queue import FreeQueue

__all__ = [
    "BlocksLeakOnAbort",
    "CacheSecretlyOff",
    "LastTokenNotComputed",
    "NewestEvictedFirst",
    "PoolSecretlyHalved",
    "PrefixHeadEvictedFirst",
    "ResetClearsNothing",
    "SharedBlocksCountedOnce",
    "SlowLookup",
]

_SLOW_S = 0.02


class LastTokenNotComputed(CacheManager):
    """A prompt that is cached as a whole is found as a whole, and there are no logits to go on with."""

    def _most_hit_blocks(self, state: RequestState) -> int:
        return state.num_tokens // self.block_size


class ResetClearsNothing(CacheManager):
    """A reset is accepted, says that it worked, and leaves everything cached."""

    def reset_prefix_cache(self) -> bool:
        done = not self.pool.num_used
        if self.observer is not None:
            self.observer.reset(done)
        return done


class PrefixHeadEvictedFirst(CacheManager):
    """A chain is freed from its head, so that the first eviction makes all of it unreachable."""

    def free(self, state: RequestState) -> None:
        blocks = state.blocks
        state.blocks = []
        state.cached_blocks = 0
        self.pool.free(blocks)


class NewestEvictedFirst(CacheManager):
    """What was used last is evicted first."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.pool.free_queue = _NewestFirst(self.pool.num_blocks)


class _NewestFirst(FreeQueue):
    def take(self, count: int) -> list[int]:
        taken = super().take(min(count, len(self) - len(self.tail)))
        while len(taken) < count:
            taken.append(self.tail.popitem(last=True)[0])
        return taken


class SharedBlocksCountedOnce(CacheManager):
    """A block that two requests hold is free as soon as one of them ends."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.pool = _CountedOnce(self.pool.num_blocks, self.rules.free_rule, self.pool.on_evicted)


class _CountedOnce(BlockPool):
    def touch(self, blocks: Sequence[int]) -> None:
        super().touch([block for block in blocks if not self._refs[block]])

    def free(self, blocks: Iterable[int]) -> None:
        super().free([block for block in blocks if self._refs[block]])


class CacheSecretlyOff(CacheManager):
    """Nothing is cached, although the page says that caching is on."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **(named | {"enable_caching": False}))


class PoolSecretlyHalved(CacheManager):
    """Half of the blocks that the page names exist."""

    def __init__(self, num_blocks: int | None, *arguments: Any, **named: Any) -> None:
        super().__init__(None if num_blocks is None else (num_blocks - 1) // 2 + 1, *arguments, **named)


class BlocksLeakOnAbort(Engine):
    """A request whose client leaves keeps its blocks for ever."""

    def abort(self, sequence: Sample) -> None:
        state = self.scheduler.state_of(sequence.request.request_id)
        if state is not None:
            self.scheduler.manager.pool.touch(state.blocks)
        super().abort(sequence)


class SlowLookup(Engine):
    """Every request that looks the cache up waits 20 ms for the answer."""

    def __init__(
        self,
        build_scheduler: Callable[[Callable[[RequestState], int]], Scheduler],
        time_model: TimeModel,
        clock: Clock,
        recorder: EngineRecorder,
    ) -> None:
        self._lookups = 0
        super().__init__(build_scheduler, time_model, clock, recorder)

    def _note_scheduled(self, outcome: StepOutcome, now: float) -> None:
        super()._note_scheduled(outcome, now)
        self._lookups = sum(not admission.skipped_lookup for admission in outcome.admitted)

    def _step_seconds(self, outcome: StepOutcome) -> float:
        return super()._step_seconds(outcome) + _SLOW_S * self._lookups
