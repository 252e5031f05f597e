"""What one load run is asked to do."""

from dataclasses import dataclass
from pathlib import Path

from hitcurve_loadtests.arrivals import ArrivalKind
from hitcurve_loadtests.profiles.catalogue import Api

__all__ = ["LoadSettings"]


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Everything about a run but what the prompts say. Durations in seconds."""

    name: str
    """Names the run's files and its lines in ``requests.jsonl``."""
    profile: str
    host: str
    api: Api
    models: tuple[str, ...]
    """Requests go to them in turn; empty asks the engine which model it serves."""
    seed: int
    users: int | None = None
    """Closed loop: how many requests are in flight all the time. ``None`` is an open loop."""
    arrivals: ArrivalKind = "poisson"
    duration_s: float | None = None
    requests: int | None = None
    cache_salt: str | None = None
    api_key: str | None = None
    ignore_eos: bool = True
    timeout_s: float = 120.0
    drain_s: float = 30.0
    """How long requests in flight may take after the last one was sent."""
    max_in_flight: int = 1000
    max_lag_s: float = 0.1
    """The run is invalid where the 99th percentile of the generator's own delays is above this."""
    out: Path | None = None
