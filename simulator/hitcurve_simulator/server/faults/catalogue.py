"""Every defect that can be planted, by name."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from hitcurve.errors import UsageError
from hitcurve_simulator.server.engine import Engine
from hitcurve_simulator.server.engine_metrics import EngineMetrics
from hitcurve_simulator.server.faults import blocks, counting, keys
from hitcurve_simulator.vllm import CacheManager

__all__ = ["FAULTS", "HEALTHY", "Fault", "find_fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One defect: what is wrong in one sentence, and the parts of the engine that have it.

    ``needs_peer``: it takes two engines, each told the other's address.
    """

    name: str
    defect: str
    manager: type[CacheManager] = CacheManager
    metrics: type[EngineMetrics] = EngineMetrics
    engine: type[Engine] = Engine
    needs_peer: bool = False


HEALTHY: Final = Fault("", "Nothing is wrong.")

_ALL: Final = (
    Fault("adapter-not-hashed", "Blocks of one adapter are found by another.", manager=keys.AdapterNotHashed),
    Fault("salt-not-hashed", "Blocks of one tenant are found by another.", manager=keys.SaltNotHashed),
    Fault("image-not-hashed", "Two images of one size are the same to the cache.", manager=keys.ImageNotHashed),
    Fault(
        "parent-not-hashed",
        "A block is found by its own tokens, whatever comes before it.",
        manager=keys.ParentNotHashed,
    ),
    Fault(
        "stale-after-reload",
        "Other weights under an adapter's name find blocks of the earlier ones.",
        manager=keys.StaleAfterReload,
    ),
    Fault(
        "random-hash-root",
        "Two replicas give the same prefix two hashes.",
        manager=keys.RandomHashRoot,
    ),
    Fault(
        "last-token-not-computed",
        "A prompt that is cached as a whole is found as a whole: hit tokens equal its length.",
        manager=blocks.LastTokenNotComputed,
    ),
    Fault(
        "reset-clears-nothing",
        "A reset says that it worked and leaves everything cached.",
        manager=blocks.ResetClearsNothing,
    ),
    Fault(
        "head-evicted-first",
        "A chain is evicted from its head, which makes all of it unreachable.",
        manager=blocks.PrefixHeadEvictedFirst,
    ),
    Fault("newest-evicted-first", "What was used last is evicted first.", manager=blocks.NewestEvictedFirst),
    Fault("leak-on-abort", "A request whose client leaves keeps its blocks.", engine=blocks.BlocksLeakOnAbort),
    Fault(
        "shared-counted-once",
        "A block that two requests hold is free as soon as one of them ends.",
        manager=blocks.SharedBlocksCountedOnce,
    ),
    Fault("cache-secretly-off", "Nothing is cached although the page says so.", manager=blocks.CacheSecretlyOff),
    Fault("pool-secretly-halved", "Half of the pool does not exist.", manager=blocks.PoolSecretlyHalved),
    Fault("slow-lookup", "Every lookup takes 20 ms.", engine=blocks.SlowLookup),
    Fault("reset-clears-counters", "A reset takes the counters to zero.", metrics=counting.ResetClearsCounters),
    Fault("hits-counted-twice", "Every hit token counts as two.", manager=counting.HitsCountedTwice),
    Fault(
        "queries-per-attempt",
        "A waiting request is counted at every attempt to schedule it.",
        manager=counting.QueriesPerAttempt,
    ),
    Fault("counters-stuck", "Queries and hits stand still under traffic.", manager=counting.CountersStuck),
    Fault(
        "preempted-as-hits",
        "A request that comes back after a preemption counts as found.",
        manager=counting.PreemptedCountedAsHits,
    ),
    Fault("counters-swapped", "Two engines show each other's page.", needs_peer=True),
)

FAULTS: Final[dict[str, Fault]] = {fault.name: fault for fault in _ALL}


def find_fault(name: str) -> Fault:
    """The fault of that name, ``HEALTHY`` for an empty one. Raises UsageError for an unknown one."""
    if not name:
        return HEALTHY
    if name not in FAULTS:
        alike = get_close_matches(name, FAULTS, n=1)
        meant = f" (did you mean '{alike[0]}'?)" if alike else ""
        raise UsageError(f"--fault: there is no fault '{name}'{meant}; 'hitcurve engine --list-faults' shows all.")
    return FAULTS[name]
