"""Logged requests of OpenAI's API, bare or wrapped, brought to the fields of a trace row."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

__all__ = ["as_trace_row"]

_WRAPPERS = ("body", "request")
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
    stamp = row.get("timestamp", row.get("created"))
    row["timestamp"] = _seconds(stamp)
    if row.get("lora") in (None, "") and isinstance(row.get("model"), str):
        row["lora"] = row["model"]
    row.setdefault("tenant", row.get("user"))
    if row.get("output_length") is None and (written := _completion_tokens(values)) is not None:
        row["output_length"] = written
    if row.get("tools") and isinstance(row.get("messages"), list):
        row["messages"] = [{"role": "tools", "content": json.dumps(row["tools"])}, *row["messages"]]
    return row


def _seconds(stamp: object) -> object:
    if not isinstance(stamp, str):
        return stamp
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return stamp


def _completion_tokens(values: Mapping[str, Any]) -> object:
    response = values.get("response")
    for place in (values, response, response.get("body") if isinstance(response, Mapping) else None):
        usage = place.get("usage") if isinstance(place, Mapping) else None
        if isinstance(usage, Mapping) and "completion_tokens" in usage:
            return usage["completion_tokens"]
    return None
