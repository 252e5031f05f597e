"""Names that findings use."""

from hitcurve.doctor.observed import Engine, Replica

__all__ = ["name_of"]


def name_of(replica: Replica, engine: Engine) -> str:
    """The replica, and the engine where the replica has several."""
    if len(replica.engines) == 1:
        return replica.name
    return f"{replica.name} engine {engine.sample.engine}"
