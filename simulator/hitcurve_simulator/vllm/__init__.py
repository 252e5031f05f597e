"""The cache rules of vLLM V1 for one full-attention group.

``CacheManager`` looks up, allocates and frees; ``Scheduler`` runs requests on it step by step::

    manager = CacheManager(num_blocks=1025, block_size=16, rules=rules_of_version("0.32.0"))
    scheduler = Scheduler(manager, SchedulerSettings(), next_token=lambda state: 7)
    scheduler.add(Request("r1", prompt_token_ids=list(range(100)), max_output_tokens=8))
    while scheduler.has_requests:
        outcome = scheduler.step()
"""

from hitcurve_simulator.vllm.block_keys import BlockHasher, ExtraKeys, InterningHasher, VllmHasher
from hitcurve_simulator.vllm.block_pool import NULL_BLOCK, BlockPool
from hitcurve_simulator.vllm.manager import CacheManager
from hitcurve_simulator.vllm.observer import CacheObserver
from hitcurve_simulator.vllm.outcome import (
    Admission,
    FinishedRequest,
    FinishReason,
    NewToken,
    ScheduledWork,
    StepOutcome,
)
from hitcurve_simulator.vllm.request import Request, RequestState
from hitcurve_simulator.vllm.scheduler import RequestRejected, Scheduler, TokenSource
from hitcurve_simulator.vllm.settings import SchedulerSettings
from hitcurve_simulator.vllm.statistics import LookupStatistics
from hitcurve_simulator.vllm.versions import DEFAULT_VERSION, VllmRules, rules_of_version

__all__ = [
    "DEFAULT_VERSION",
    "NULL_BLOCK",
    "Admission",
    "BlockHasher",
    "BlockPool",
    "CacheManager",
    "CacheObserver",
    "ExtraKeys",
    "FinishReason",
    "FinishedRequest",
    "InterningHasher",
    "LookupStatistics",
    "NewToken",
    "Request",
    "RequestRejected",
    "RequestState",
    "ScheduledWork",
    "Scheduler",
    "SchedulerSettings",
    "StepOutcome",
    "TokenSource",
    "VllmHasher",
    "VllmRules",
    "rules_of_version",
]
