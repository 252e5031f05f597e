"""A router of a few lines: round-robin or by prefix over replicas, with failover. It stands in for a real one."""

from collections.abc import Sequence

from hitcurve_chaos.probe import Probe, ProbeAnswer
from hitcurve_chaos.targets import Target

__all__ = ["Router"]


class Router:
    """Sends each request to one replica, and to the next ones where that one fails."""

    def __init__(self, probe: Probe, replicas: Sequence[Target]) -> None:
        self._probe = probe
        self._replicas = replicas
        self._next = 0
        self.failed_over = 0

    def ask(self, prompt: Sequence[int], *, affinity: int | None = None) -> ProbeAnswer:
        """Round-robin, or the replica that ``affinity`` decides."""
        start = self._next if affinity is None else affinity
        self._next += affinity is None
        answer = ProbeAnswer(False, reason="there is no replica")
        for step in range(len(self._replicas)):
            replica = self._replicas[(start + step) % len(self._replicas)]
            answer = self._probe.ask(prompt, engine=replica.engine)
            if answer.completed:
                self.failed_over += step > 0
                return answer
        return answer
