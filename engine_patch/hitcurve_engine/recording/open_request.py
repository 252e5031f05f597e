"""What the replay keeps of a request until it is over: keys and counts, no token."""

from collections.abc import Hashable, Sequence
from typing import Any

from hitcurve_engine.recording.block_content import ContentKeys
from hitcurve_engine.recording.request_reading import NOTHING_READ, RequestKeys
from hitcurve_engine.recording.sinks import RequestContext

__all__ = ["OpenContext"]


class OpenContext:
    """A request under way. ``keys`` are those of its full blocks when ``keys_of_tokens`` tokens were looked up."""

    __slots__ = (
        "adapter_load",
        "asked_tokens",
        "content",
        "evicted_blocks",
        "hashes",
        "keys",
        "keys_of_tokens",
        "preempted_at_s",
        "read",
        "request_id",
        "stored_blocks",
    )

    def __init__(self, request_id: str, read: RequestKeys = NOTHING_READ) -> None:
        self.request_id = request_id
        self.read = read
        self.adapter_load = 0
        """See ``AdapterLoads``."""
        self.asked_tokens = 0
        """Of the last lookup."""
        self.hashes: list[Hashable] = []
        """All that the engine has made so far."""
        self.keys: list[Hashable] | None = None
        self.keys_of_tokens = -1
        self.content: list[Hashable] = []
        """Keys of the same blocks from the tokens alone."""
        self.preempted_at_s: list[float] = []
        self.stored_blocks = 0
        self.evicted_blocks = 0

    def extend_hashes(
        self, first: int, hashes: Sequence[Hashable], beginning: Sequence[Hashable] | None = None
    ) -> None:
        """Take the hashes from the number ``first`` on; ``beginning`` are those before, where they were not taken.
        Raises LookupError where some before them are missing."""
        if beginning is not None:
            self.hashes = list(beginning)
        if first > len(self.hashes):
            raise LookupError(f"hashes {len(self.hashes)} to {first} of a request are missing")
        if first == 0:
            self.content.clear()
            self.keys_of_tokens = -1
        del self.hashes[first:]
        self.hashes += hashes

    def extend_content(self, first: int, tokens: Sequence[int], block_size: int, keys: ContentKeys) -> None:
        """Lengthen ``content`` by whole blocks from ``first`` on; where earlier ones are unknown, by none."""
        content = self.content
        start = len(content) - first
        if start < 0:
            return
        parent = content[-1] if content else keys.root
        rest = iter(tokens[start * block_size :] if start else tokens)
        for block in zip(*[rest] * block_size, strict=False):
            parent = keys.key_of(parent, block)
            content.append(parent)

    def finished(self, status: str, facts: tuple[Any, ...]) -> RequestContext:
        """What a sink is told of the request; ``facts`` as in ``event_reader``."""
        _, _, _, carrier, arrival_time, output_tokens = facts
        return RequestContext(
            trace_carrier=carrier,
            arrival_wall_s=arrival_time,
            salted=self.read.salt is not None,
            image_keys=self.read.image_keys,
            finish_status=status,
            output_tokens=output_tokens,
            preempted_at_s=tuple(self.preempted_at_s),
            stored_blocks=self.stored_blocks,
            evicted_blocks=self.evicted_blocks,
        )
