"""The scenarios by name. A new one is a file of its own and a line here."""

import difflib
from collections.abc import Sequence

from hitcurve.errors import UsageError
from hitcurve_chaos.scenarios.abort_storm import ABORT_STORM
from hitcurve_chaos.scenarios.adapter_reload import ADAPTER_RELOAD
from hitcurve_chaos.scenarios.adapter_scatter import ADAPTER_SCATTER
from hitcurve_chaos.scenarios.affinity_lost import AFFINITY_LOST
from hitcurve_chaos.scenarios.cold_stampede import COLD_STAMPEDE
from hitcurve_chaos.scenarios.cold_start import COLD_START
from hitcurve_chaos.scenarios.collector_lost import COLLECTOR_LOST
from hitcurve_chaos.scenarios.container_faults import CONTAINER_CUT_OFF, CONTAINER_STARVED
from hitcurve_chaos.scenarios.counters_honest import COUNTERS_HONEST
from hitcurve_chaos.scenarios.cut_network import CUT_NETWORK
from hitcurve_chaos.scenarios.eviction_order import EVICTION_ORDER
from hitcurve_chaos.scenarios.exporter_clock_jump import EXPORTER_CLOCK_JUMP
from hitcurve_chaos.scenarios.exporter_lost import EXPORTER_LOST
from hitcurve_chaos.scenarios.hash_seed_disagreement import HASH_SEED_DISAGREEMENT
from hitcurve_chaos.scenarios.images_must_not_share import IMAGES_MUST_NOT_SHARE
from hitcurve_chaos.scenarios.lora_churn import LORA_CHURN
from hitcurve_chaos.scenarios.one_replica_reset import ONE_REPLICA_RESET
from hitcurve_chaos.scenarios.pause import PAUSE
from hitcurve_chaos.scenarios.pool_pressure import POOL_PRESSURE
from hitcurve_chaos.scenarios.preemption_storm import PREEMPTION_STORM
from hitcurve_chaos.scenarios.prompt_logprobs_storm import PROMPT_LOGPROBS_STORM
from hitcurve_chaos.scenarios.replica_loss import REPLICA_LOSS
from hitcurve_chaos.scenarios.reset_busy import RESET_BUSY
from hitcurve_chaos.scenarios.reset_idle import RESET_IDLE
from hitcurve_chaos.scenarios.reset_prefix_cache import RESET_PREFIX_CACHE
from hitcurve_chaos.scenarios.restart import CORE_KILL, RESTART_KILL, RESTART_TERM
from hitcurve_chaos.scenarios.salt_storm import SALT_STORM
from hitcurve_chaos.scenarios.scenario import Scenario
from hitcurve_chaos.scenarios.shared_prefix_outlives import SHARED_PREFIX_OUTLIVES
from hitcurve_chaos.scenarios.short_prefixes import SHORT_PREFIXES
from hitcurve_chaos.scenarios.slow_network import SLOW_NETWORK
from hitcurve_chaos.scenarios.tenants_must_not_share import TENANTS_MUST_NOT_SHARE
from hitcurve_chaos.scenarios.traffic_shift import TRAFFIC_SHIFT
from hitcurve_chaos.scenarios.unique_flood import UNIQUE_FLOOD

__all__ = ["SCENARIOS", "find_scenarios"]

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        # Under load, judged by the curve.
        RESET_PREFIX_CACHE,
        POOL_PRESSURE,
        LORA_CHURN,
        # Drills, the gentle ones first.
        COUNTERS_HONEST,
        SHORT_PREFIXES,
        TENANTS_MUST_NOT_SHARE,
        IMAGES_MUST_NOT_SHARE,
        SALT_STORM,
        COLD_STAMPEDE,
        PROMPT_LOGPROBS_STORM,
        TRAFFIC_SHIFT,
        UNIQUE_FLOOD,
        ADAPTER_RELOAD,
        ADAPTER_SCATTER,
        COLD_START,
        RESET_IDLE,
        RESET_BUSY,
        ONE_REPLICA_RESET,
        AFFINITY_LOST,
        HASH_SEED_DISAGREEMENT,
        ABORT_STORM,
        PREEMPTION_STORM,
        SHARED_PREFIX_OUTLIVES,
        EVICTION_ORDER,
        EXPORTER_CLOCK_JUMP,
        EXPORTER_LOST,
        COLLECTOR_LOST,
        SLOW_NETWORK,
        CUT_NETWORK,
        PAUSE,
        REPLICA_LOSS,
        RESTART_TERM,
        RESTART_KILL,
        CORE_KILL,
        CONTAINER_STARVED,
        CONTAINER_CUT_OFF,
    )
}


def find_scenarios(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of those names, in order; UsageError naming the nearest and all others."""
    if not names:
        raise UsageError(f"no scenario is named; the scenarios are {', '.join(SCENARIOS)}.")
    for name in names:
        if name not in SCENARIOS:
            near = difflib.get_close_matches(name, SCENARIOS, n=1)
            hint = f"did you mean '{near[0]}'? The" if near else "the"
            raise UsageError(f"there is no scenario '{name}'; {hint} scenarios are {', '.join(SCENARIOS)}.")
    return [SCENARIOS[name] for name in names]
