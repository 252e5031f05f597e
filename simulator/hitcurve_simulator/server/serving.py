"""What the endpoints of one server share."""

from dataclasses import dataclass

from hitcurve_simulator.server.adapters import Adapters
from hitcurve_simulator.server.clock import Clock
from hitcurve_simulator.server.engine import Engine
from hitcurve_simulator.server.engine_metrics import EngineMetrics
from hitcurve_simulator.server.generation import Generator
from hitcurve_simulator.server.settings import EngineSettings

__all__ = ["Serving"]


@dataclass(frozen=True, slots=True)
class Serving:
    """One engine, its adapters, its metrics."""

    settings: EngineSettings
    clock: Clock
    engine: Engine
    metrics: EngineMetrics
    adapters: Adapters
    generator: Generator

    @property
    def fingerprint(self) -> str:
        """``system_fingerprint`` of answers."""
        return f"vllm-{self.settings.version}-simulated"
