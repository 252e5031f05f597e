"""Begins to follow the KV events of a target where its configuration names them."""

from collections.abc import Sequence

import zmq.asyncio

from hitcurve_exporter.clock import Clock
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.kv_events.subscriber import KvSubscriber, OnReset

__all__ = ["KvFollowing"]


class KvFollowing:
    """One ZeroMQ context for all publishers; ``close`` it when every subscriber is closed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._context = zmq.asyncio.Context()

    def follow(self, target: TargetConfig, most_bytes: int, on_reset: OnReset) -> Sequence[KvSubscriber]:
        """Subscribers that run already, one for each data-parallel engine."""
        publishers = () if target.kv_events is None else target.kv_events.publishers
        subscribers = [KvSubscriber(self._context, one, self._clock, most_bytes, on_reset) for one in publishers]
        for subscriber in subscribers:
            subscriber.start()
        return subscribers

    def close(self) -> None:
        """End the context, and what is left of its sockets."""
        self._context.destroy(linger=0)
