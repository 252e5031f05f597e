"""Rows through vLLM's rules for several groups, with the reason of every missed token."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from hitcurve_simulator.simulate.fifo_replay import FifoReplay
from hitcurve_simulator.simulate.result import ServedRequest, SimulationResult
from hitcurve_simulator.simulate.vllm_group_requests import VllmGroupRequests
from hitcurve_simulator.traces import LineFinding, TraceRow
from hitcurve_simulator.vllm import InterningHasher, RequestState, VllmRules
from hitcurve_simulator.vllm.block_keys import extend_keys
from hitcurve_simulator.vllm_groups import Attention, GroupedCacheManager

__all__ = ["CHUNK_TOKENS", "VllmGroupReplay", "VllmGroupSettings"]

CHUNK_TOKENS = 2048
"""What a step may compute, as vLLM's ``max_num_batched_tokens``."""
_NO_EXTRA_KEYS = (0,)


@dataclass(frozen=True, slots=True)
class VllmGroupSettings:
    """``pool_blocks`` counts usable blocks, None: no limit. The rest as in ``VllmReplaySettings``."""

    rules: VllmRules
    groups: tuple[Attention, ...]
    pool_blocks: int | None = None
    concurrency: int = 1
    outputs: bool = False


class VllmGroupReplay:
    """One replay; used once. Raises ValueError for groups and versions whose rules are not known.

    A miss is ``tail`` behind the last place where a hit can end, ``capacity`` where the same prefix was computed
    before, ``isolated`` where it was computed under another adapter or salt, else ``compulsory``.
    """

    def __init__(self, settings: VllmGroupSettings) -> None:
        pool = settings.pool_blocks
        self._manager = GroupedCacheManager(
            None if pool is None else pool + 1, settings.groups, settings.rules, in_flight_tokens=CHUNK_TOKENS
        )
        self._rules = VllmGroupRequests(self._manager, settings.outputs, CHUNK_TOKENS, self._remember)
        self._replay = FifoReplay(self._rules, settings.concurrency, settings.outputs)
        self._content_hasher = InterningHasher()
        self._keys_seen: set[Hashable] = set()
        self._contents_seen: set[Hashable] = set()

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = lambda: None) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each."""
        result = SimulationResult()
        misses: Counter[str] = Counter()
        for row in rows:
            if (reason := self._replay.reason_to_reject(row)) is not None:
                result.rejected.append(LineFinding(row.line, reason))
            else:
                served = self._replay.serve(row)
                result.served.append(served)
                misses.update(self._reasons(served))
            on_row()
        self._replay.drain()
        result.evicted_blocks = self._rules.evicted_blocks
        result.miss_tokens = dict(misses)
        result.check_sum()
        result.details = self._rules.details()
        return result

    def _reasons(self, served: ServedRequest) -> Counter[str]:
        request, size = served.row.request, self._manager.key_size
        state = self._rules.states[request.request_id]
        contents = self._contents(state)
        reasons: Counter[str] = Counter()
        if served.hit_tokens is not None:
            reusable = (request.prompt_tokens - 1) // self._manager.block_size * self._manager.block_size
            for block in range(served.hit_tokens // size, reusable // size):
                if state.keys[block] in self._keys_seen:
                    reasons["capacity"] += size
                else:
                    reasons["isolated" if contents[block] in self._contents_seen else "compulsory"] += size
            reasons["tail"] += request.prompt_tokens - max(reusable, served.hit_tokens)
        self._remember(state)
        return reasons

    def _remember(self, state: RequestState) -> None:
        """What the request has computed so far was computed once."""
        full = state.computed_tokens // self._manager.key_size
        self._keys_seen.update(state.keys[:full])
        self._contents_seen.update(self._contents(state)[:full])

    def _contents(self, state: RequestState) -> list[Hashable]:
        """Keys of a sequence apart from adapter, salt and images."""
        bare = RequestState(replace(state.request, adapter=None, cache_salt=None, images=()))
        bare.num_tokens, bare.output_token_ids = state.num_tokens, state.output_token_ids
        extend_keys(self._content_hasher, bare, self._manager.key_size, _NO_EXTRA_KEYS)
        return bare.keys
