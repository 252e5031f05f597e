"""Logged requests of OpenAI's API, bare or wrapped, brought to the fields of a trace row."""

import json
from collections.abc import Mapping
from typing import Any

from hitcurve_simulator.traces.served import seconds, served_of

__all__ = ["as_trace_row"]

_WRAPPERS = ("body", "request")
_STAMPS = ("timestamp", "at_s", "startTime", "created")
_CONTENT = ("messages", "prompt", "token_ids")


def as_trace_row(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row itself, or the request it wraps (``body`` of a batch file, ``request`` of a log) with its time.

    ``model`` becomes the adapter where none is named: engines serve adapters as models, and different models share
    no cache. ``user`` becomes the tenant. Tool definitions come first, as chat templates have them.
    """
    if "hash_ids" in values:
        return values
    inner = next((values[name] for name in _WRAPPERS if isinstance(values.get(name), Mapping)), None)
    if inner is None or any(name in values for name in _CONTENT):
        inner = values
    if not any(name in inner for name in _CONTENT):
        return values
    row = {**values, **inner}
    stamp = next((row[name] for name in _STAMPS if row.get(name) is not None), None)
    row["timestamp"] = stamp if (at_s := seconds(stamp)) is None else at_s
    if row.get("lora") in (None, "") and isinstance(row.get("model"), str):
        row["lora"] = row["model"]
    row.setdefault("tenant", row.get("user"))
    if row.get("output_length") is None:
        row["output_length"] = served_of(values).completion_tokens
    if row.get("prompt_logprobs") is not None or (row.get("echo") and row.get("logprobs") is not None):
        # vLLM computes such a prompt whole (0.8.5 to 0.32).
        row["skip_reading_prefix_cache"] = True
    if row.get("tools") and isinstance(row.get("messages"), list):
        row["messages"] = [{"role": "tools", "content": json.dumps(row["tools"])}, *row["messages"]]
    return row
