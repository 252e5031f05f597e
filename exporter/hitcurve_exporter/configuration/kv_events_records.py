"""Where an engine publishes its KV events."""

from dataclasses import dataclass

__all__ = ["KvEventsConfig", "KvPublisher"]


@dataclass(frozen=True, slots=True)
class KvPublisher:
    """One publisher: that of one data-parallel engine."""

    engine: str
    """The rank, which is also what the engine's page calls it."""
    endpoint: str
    replay_endpoint: str | None
    topic: str


@dataclass(frozen=True, slots=True)
class KvEventsConfig:
    """Addresses of the first rank, as in vLLM's ``--kv-events-config``; each further rank is one port above."""

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""
    ranks: int = 1

    @property
    def publishers(self) -> tuple[KvPublisher, ...]:
        """By rank."""
        return tuple(
            KvPublisher(
                str(rank),
                _of_rank(self.endpoint, rank),
                None if self.replay_endpoint is None else _of_rank(self.replay_endpoint, rank),
                self.topic,
            )
            for rank in range(self.ranks)
        )


def _of_rank(endpoint: str, rank: int) -> str:
    if rank == 0:
        return endpoint
    address, _, port = endpoint.rpartition(":")
    return f"{address}:{int(port) + rank}"
