"""Which engine a finding is about, and of which kind it is."""

from hitcurve.doctor.observed import Engine, Replica

__all__ = ["is_vllm", "name_of"]


def name_of(replica: Replica, engine: Engine) -> str:
    """The replica, and the engine where the replica has several."""
    if len(replica.engines) == 1:
        return replica.name
    return f"{replica.name} engine {engine.sample.engine}"


def is_vllm(engine: Engine) -> bool:
    """Whether advice for vLLM fits it: engines of other kinds name their counters otherwise."""
    lookups = engine.sample.lookups
    return lookups is None or "vllm" in lookups.spelling
