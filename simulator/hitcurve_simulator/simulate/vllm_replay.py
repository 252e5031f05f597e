"""Rows through vLLM's cache rules, with the reason of every missed token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hitcurve_simulator.simulate.cache_rules import CacheRules
from hitcurve_simulator.simulate.ledger_replay import LedgerReplay
from hitcurve_simulator.simulate.result import SimulationResult
from hitcurve_simulator.simulate.vllm_requests import VllmRequests
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import CacheManager, CacheObserver, VllmRules

__all__ = ["VllmReplay", "VllmReplaySettings", "make_vllm_rules"]


@dataclass(frozen=True, slots=True)
class VllmReplaySettings:
    """``pool_blocks`` counts usable blocks, None: no limit. ``concurrency``: requests that hold blocks at once.
    ``outputs``: the output takes room, and its full blocks are cached when the request ends."""

    rules: VllmRules
    block_size: int
    pool_blocks: int | None = None
    concurrency: int = 1
    outputs: bool = False


class VllmReplay:
    """One replay; used once."""

    def __init__(self, settings: VllmReplaySettings, isolating: bool = True) -> None:
        """``isolating``: the rows have adapters or salts, so that misses may be due to them."""
        pool = settings.pool_blocks
        self._replay = LedgerReplay(
            lambda observer: make_vllm_rules(settings, observer),
            settings.block_size,
            pool,
            settings.concurrency,
            settings.outputs,
            isolating,
        )

    def run(self, rows: Sequence[TraceRow], on_row: Callable[[], None] = lambda: None) -> SimulationResult:
        """Replay all rows; ``on_row`` is called after each."""
        return self._replay.run(rows, on_row)


def make_vllm_rules(settings: VllmReplaySettings, observer: CacheObserver) -> CacheRules:
    """vLLM's rules with a pool of these settings."""
    manager = CacheManager(
        num_blocks=None if settings.pool_blocks is None else settings.pool_blocks + 1,
        block_size=settings.block_size,
        # A request gets all its room at once here, and a partial prompt block of a trace takes none.
        rules=replace(settings.rules, reserve_whole_prompt=False),
        observer=observer,
    )
    return VllmRequests(manager, settings.outputs)
