"""Which trace format a file has, and the defaults that come with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "AGENT_SESSIONS",
    "BAILIAN",
    "KV_EVENTS",
    "MOONCAKE",
    "PLAIN",
    "SHAREGPT",
    "TimeUnit",
    "TraceFormat",
    "format_of",
]

TimeUnit = Literal["ms", "s"]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Defaults of a format: tokens per hash id, unit of ``timestamp``."""

    name: str
    block_size: int
    time_unit: TimeUnit


MOONCAKE = TraceFormat("mooncake", 512, "ms")
"""``hash_ids`` of 512 tokens, milliseconds (kvcache-ai/Mooncake, FAST25-release/traces)."""
BAILIAN = TraceFormat("bailian", 16, "s")
"""``hash_ids`` of 16 tokens, seconds, ``chat_id`` and ``parent_chat_id`` (qwen-bailian-usagetraces-anon)."""
PLAIN = TraceFormat("plain", 16, "s")
"""Rows that bring tokens or text."""

SHAREGPT = TraceFormat("sharegpt", 16, "s")
"""Conversations: ``{"id", "conversations": [{"from", "value"}]}``, a JSON list or JSON lines."""


AGENT_SESSIONS = TraceFormat("kv-cache-tester", 64, "s")
"""``{"id", "block_size", "requests": [{"t", "in", "out", "hash_ids"}]}`` (callanjfox/kv-cache-tester)."""

KV_EVENTS = TraceFormat("kv-events", 16, "s")
"""Recorded batches of vLLM's KV events (``hitcurve_simulator.traces.kv_events``)."""


def format_of(row: Mapping[str, Any]) -> TraceFormat:
    """The format of a file by one of its rows."""
    if isinstance(row.get("requests"), list):
        return AGENT_SESSIONS
    if "conversations" in row or "conversation" in row:
        return SHAREGPT
    if "chat_id" in row:
        return BAILIAN
    if any(name in row for name in ("token_ids", "prompt", "messages", "body", "request")):
        return PLAIN
    return MOONCAKE
