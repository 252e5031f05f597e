"""What the replay keeps of a request until it is over: keys and counts, no token."""

from collections.abc import Hashable, Sequence
from typing import Any

from hitcurve_engine.recording.request_reading import read_keys, trace_carrier
from hitcurve_engine.recording.sinks import RequestContext

__all__ = ["OpenContext"]


class OpenContext:
    """A request under way. ``keys`` are those of its full blocks when ``keys_of_tokens`` tokens were looked up."""

    __slots__ = (
        "adapter_load",
        "content",
        "evicted_blocks",
        "keys",
        "keys_of_tokens",
        "preempted_at_s",
        "read",
        "request_id",
        "stored_blocks",
    )

    def __init__(self, request: Any) -> None:
        self.request_id: str = request.request_id
        self.read = read_keys(request)
        self.adapter_load = 0
        """See ``AdapterLoads``."""
        self.keys: list[Hashable] | None = None
        self.keys_of_tokens = -1
        self.content: list[Hashable] = []
        """Keys of the same blocks from the tokens alone."""
        self.preempted_at_s: list[float] = []
        self.stored_blocks = 0
        self.evicted_blocks = 0

    def extend_content(self, request: Any, block_size: int, blocks: int, known: Sequence[Hashable] = ()) -> None:
        """Lengthen ``content`` to ``blocks`` blocks: by the ``known`` next keys, then from the tokens."""
        content = self.content
        content.extend(known[: max(blocks - len(content), 0)])
        start = len(content)
        if start >= blocks:
            return
        parent = content[-1] if content else 0
        tokens = iter(request.all_token_ids[start * block_size : blocks * block_size])
        for block in zip(*[tokens] * block_size, strict=False):
            parent = hash((parent, block))
            content.append(parent)

    def finished(self, request: Any, status: str) -> RequestContext:
        """What a sink is told of the request."""
        return RequestContext(
            trace_carrier=trace_carrier(request),
            arrival_wall_s=getattr(request, "arrival_time", None),
            salted=self.read.salt is not None,
            image_keys=self.read.image_keys,
            finish_status=status,
            output_tokens=getattr(request, "num_output_tokens", None),
            preempted_at_s=tuple(self.preempted_at_s),
            stored_blocks=self.stored_blocks,
            evicted_blocks=self.evicted_blocks,
        )
