"""What one load run is asked to do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hitcurve_loadtests.arrivals import ArrivalKind
from hitcurve_loadtests.profiles.spec import Api, Route

__all__ = ["LoadSettings", "Spread"]

Spread = Literal["sticky", "scattered"]


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Everything about a run but what the prompts say. Durations in seconds."""

    name: str
    """Names the run's files and its lines in ``requests.jsonl``."""
    profile: str
    hosts: tuple[str, ...]
    api: Api
    models: tuple[str, ...]
    """Requests go to them in turn; empty asks the engine which model it serves."""
    seed: int
    users: int | None = None
    """Closed loop: how many requests are in flight all the time. ``None`` is an open loop."""
    think_time_s: float = 0.0
    """Closed loop: mean pause of a user between a reply and the next request, exponential."""
    arrivals: ArrivalKind = "poisson"
    duration_s: float | None = None
    requests: int | None = None
    warm_up: int = 0
    """Requests that are left out of the warm hit rate."""
    cache_salt: str | None = None
    api_key: str | None = None
    ignore_eos: bool = True
    timeout_s: float = 120.0
    drain_s: float = 30.0
    """How long requests in flight may take after the last one was sent."""
    max_in_flight: int = 1000
    max_lag_s: float = 0.1
    """The run is invalid where the 99th percentile of the generator's own delays is above this."""
    spread: Spread = "sticky"
    """Of several hosts: whether what shares a prefix stays with one of them, or all take turns."""
    route: Route = "group"
    """What is sticky."""
    tokenizer: str = "auto"
    """``auto`` asks the engine and falls back to bytes; ``bytes``, or the path of a ``tokenizer.json``."""
    fewest_models: int = 1
    worker: int = 0
    """Number of this process among those of one run, from 1; 0 where it is the only one."""
    exporter: str | None = None
    """URL of hitcurve's exporter, whose number is put beside the others."""
    metrics_port: int | None = None
    """Where figures are served while the run goes on; 0 takes any free port."""
    metrics_address: str = "127.0.0.1"
    out: Path | None = None
    log_prompts: bool = False
    """Whether prompts and replies are written to ``out``, in clear text."""

    @property
    def host(self) -> str:
        """The first host."""
        return self.hosts[0]
