"""A replay with its sinks: what the events come to, wherever they are replayed."""

from collections.abc import Callable, Sequence
from typing import Any

from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.recording.event_reader import PlainEvent
from hitcurve_engine.recording.replay import Replay
from hitcurve_engine.recording.sinks import EngineFacts, PatchStatus, Sink
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

__all__ = ["ReplayHost", "SinkMaker"]

SinkMaker = Callable[[EngineFacts, Callable[[str, Exception], Any]], Sequence[Sink]]


class ReplayHost:
    """Takes events, tells the sinks. Used by one thread, that of a recorder or of a process of its own."""

    def __init__(self, shape: CacheShape, settings: Settings, switch: Switch) -> None:
        self.replay = Replay(shape, settings, switch)
        self._switch = switch

    def open(self, facts: EngineFacts, make_sinks: SinkMaker) -> None:
        """Make the sinks, before the first event is taken."""
        self.replay.has_connector = bool(facts.has_connector)
        self.replay.sinks.extend(make_sinks(facts, self._switch.note))

    def take(self, events: Sequence[PlainEvent]) -> None:
        """Replay them."""
        take = self.replay.take
        for event in events:
            take(event)

    def tick(self, status: PatchStatus) -> None:
        """Add what the replay itself knows to ``status``, and show it to the sinks."""
        replay, ledger = self.replay, self.replay.ledger
        status.cached_keys, status.ghost_keys = ledger.cached_keys, ledger.ghost_keys
        status.duplicate_blocks, status.open_requests = ledger.duplicate_blocks, ledger.open_requests
        status.pool_curve = None if replay.pool_curve is None else replay.pool_curve.sums()
        for sink in replay.sinks:
            try:
                sink.tick(status, ledger.totals)
            except Exception as error:
                self._switch.note(f"{type(sink).__module__}.tick", error)

    def close(self, deadline_s: float) -> None:
        """Close the sinks; each is told when the monotonic clock says that time is up."""
        for sink in self.replay.sinks:
            try:
                sink.close(deadline_s)
            except Exception as error:
                self._switch.note(f"{type(sink).__module__}.close", error)
