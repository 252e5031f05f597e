"""The KV events of one target, as the page and the API show them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from hitcurve_exporter.kv_events.block_table import LiveBlocks
from hitcurve_exporter.kv_events.stream import KvStream
from hitcurve_exporter.page.lines import Lines, label_text

__all__ = ["Followed", "kv_events_as_json", "kv_lines"]


class Followed(Protocol):
    """One publisher as it is followed now."""

    engine: str
    """Rank of the engine that publishes."""
    connected: bool
    """Whether the publisher is there."""
    stream: KvStream
    """What came of it."""

    @property
    def complete(self) -> bool:
        """Whether what the cache holds is known for certain."""
        ...

    @property
    def live(self) -> Mapping[str, LiveBlocks]:
        """What can be found by tier, as far as it is known for certain."""
        ...

    async def close(self) -> None:
        """Follow no longer."""
        ...


def kv_lines(target_labels: Sequence[tuple[str, str]], followed: Sequence[Followed]) -> Lines:
    """Samples of every publisher of one target; its live blocks only while they are known for certain."""
    lines = Lines()
    for one in followed:
        labels = label_text([target_labels[0], ("engine", one.engine), *target_labels[1:]])
        stream, table, counts = one.stream, one.stream.table, one.stream.counts
        for tier in sorted({"device", *table.stored, *table.removed}):
            own = label_text([("tier", tier)])
            lines.add("hitcurve_kv_events_stored_blocks_total", labels, table.stored[tier], own)
            lines.add("hitcurve_kv_events_removed_blocks_total", labels, table.removed[tier], own)
        for tier, live in one.live.items():
            own = label_text([("tier", tier)])
            lines.add("hitcurve_kv_events_live_blocks", labels, live.blocks, own)
            lines.add("hitcurve_kv_events_duplicate_blocks", labels, live.duplicate_blocks, own)
            lines.add("hitcurve_kv_events_duplicate_hashes", labels, live.duplicate_hashes, own)
        lines.add("hitcurve_kv_events_clears_total", labels, table.clears)
        lines.add("hitcurve_kv_events_unmatched_removals_total", labels, table.unmatched_removals)
        lines.add("hitcurve_kv_events_batches_total", labels, counts.batches)
        lines.add("hitcurve_kv_events_gaps_total", labels, counts.gaps)
        lines.add("hitcurve_kv_events_missed_batches_total", labels, counts.missed_batches)
        lines.add("hitcurve_kv_events_replayed_batches_total", labels, counts.replayed_batches)
        lines.add("hitcurve_kv_events_refused_messages_total", labels, counts.refused_messages)
        lines.add("hitcurve_kv_events_publisher_restarts_total", labels, counts.restarts)
        lines.add("hitcurve_kv_events_connected", labels, int(one.connected))
        lines.add("hitcurve_kv_events_complete", labels, int(one.complete))
        lines.add("hitcurve_kv_events_last_batch_timestamp_seconds", labels, stream.last_at_s)
    return lines


def kv_events_as_json(followed: Sequence[Followed]) -> list[dict[str, Any]]:
    """JSON values of every publisher of one target."""
    return [
        {
            "engine": one.engine,
            "connected": one.connected,
            "last_batch_at_s": one.stream.last_at_s,
            "stored_blocks": dict(one.stream.table.stored),
            "removed_blocks": dict(one.stream.table.removed),
            "clears": one.stream.table.clears,
            "complete": one.complete,
            "live": {tier: asdict(live) for tier, live in one.live.items()},
            **asdict(one.stream.counts),
        }
        for one in followed
    ]
