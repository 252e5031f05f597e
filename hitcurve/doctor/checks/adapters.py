"""Do the adapters in use fit into the slots?"""

from collections.abc import Iterator
from typing import Final

from hitcurve.doctor.checks.where import name_of
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said

__all__ = ["ADAPTERS"]


def _slots(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        activity = engine.sample.adapters
        if activity is None or activity.max_adapters is None:
            if replica.adapters:
                yield NotJudged(
                    (name_of(replica, engine),), "vllm:lora_requests_info, which says how many slots exist"
                )
            continue
        active = set(activity.running) | set(activity.waiting)
        served = replica.adapters if replica.adapters is not None else frozenset(active)
        if len(served) > activity.max_adapters:
            yield Finding(
                (name_of(replica, engine),),
                f"{len(served)} adapters are served with {activity.max_adapters} slots: batches wait for each "
                "other, "
                "and each adapter has a cache of its own in the same pool",
                "raise --max-loras, or send each adapter to fewer replicas",
                {"adapters": float(len(served)), "max_loras": float(activity.max_adapters)},
            )


ADAPTERS: Final = (Check("adapters-over-slots", "Are there slots for all adapters?", _slots),)
