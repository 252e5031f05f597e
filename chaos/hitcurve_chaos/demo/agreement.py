"""Do exporter and client tell the same story? Hit tokens by the engine's counters against those of ``usage``."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from hitcurve.errors import EnvironmentFailed
from hitcurve.reading import Reading
from hitcurve_chaos.report.run_folder import RequestRow

__all__ = ["Agreement", "agreement", "final_reading"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Tokens as the exporter normalised them and as the clients were told, for the same requests."""

    exporter_query_tokens: float
    exporter_hit_tokens: float
    client_prompt_tokens: float
    client_cached_tokens: float
    requests: int
    block_size: int | None
    unknown_requests: int
    """Requests that failed or did not say what was cached: the engine may have counted them."""

    @property
    def exporter_hit_rate(self) -> float | None:
        return self.exporter_hit_tokens / self.exporter_query_tokens if self.exporter_query_tokens else None

    @property
    def client_hit_rate(self) -> float | None:
        return self.client_cached_tokens / self.client_prompt_tokens if self.client_prompt_tokens else None

    @property
    def blocks_per_request(self) -> float | None:
        """Difference in hit tokens, in blocks per request; ``None`` without requests or block size."""
        if not self.requests or not self.block_size:
            return None
        return abs(self.exporter_hit_tokens - self.client_cached_tokens) / self.block_size / self.requests

    @property
    def holds(self) -> bool:
        """Whether they agree within one block per request."""
        return self.blocks_per_request is not None and self.blocks_per_request <= 1.0

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "exporter_hit_rate": self.exporter_hit_rate,
            "client_hit_rate": self.client_hit_rate,
            "blocks_per_request": self.blocks_per_request,
            "holds": self.holds,
        }


def agreement(reading: Reading, rows: Iterable[RequestRow]) -> Agreement:
    """Compare the last reading with everything the clients were told since the exporter began to watch."""
    everything = list(rows)
    known = [row for row in everything if row.outcome == "ok" and row.cached_tokens is not None]
    return Agreement(
        exporter_query_tokens=reading.query_tokens_total,
        exporter_hit_tokens=reading.hit_tokens_total,
        client_prompt_tokens=sum(row.prompt_tokens or 0 for row in known),
        client_cached_tokens=sum(row.cached_tokens or 0 for row in known),
        requests=len(known),
        block_size=reading.block_size,
        unknown_requests=len(everything) - len(known),
    )


def final_reading(read: Callable[[], Reading], after_s: float, timeout_s: float) -> Reading:
    """The first reading later than ``after_s`` (Unix seconds) in which nothing runs or waits any more."""
    deadline = time.monotonic() + timeout_s
    while True:
        reading = read()
        if reading.up and reading.at_s > after_s and not reading.running and not reading.waiting:
            return reading
        if time.monotonic() > deadline:
            raise EnvironmentFailed(
                f"the engine still had {reading.running or 0:g} running and {reading.waiting or 0:g} waiting "
                f"requests {timeout_s:g} s after the load ended; see its log."
            )
        time.sleep(0.1)
