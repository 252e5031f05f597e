"""Traces of hashed prompts, a line each: Mooncake's (512 tokens an id, milliseconds) and Bailian's (16, seconds).

``{"timestamp", "input_length": tokens, "output_length": tokens, "hash_ids": [id, ...]}``; Bailian's lines also
have a ``chat_id``. The last block may be partial.
"""

from collections.abc import Mapping
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_loadtests.replay.rows import TraceRow, lengths

__all__ = ["BAILIAN_BLOCK", "MOONCAKE_BLOCK", "hashed_row"]

MOONCAKE_BLOCK = 512
BAILIAN_BLOCK = 16
_MS_PER_S = 1000.0


def hashed_row(values: Mapping[str, Any], where: str, block_size: int) -> TraceRow:
    """One line; UsageError where it does not fit."""
    ids = values.get("hash_ids")
    if not isinstance(ids, list) or not all(
        isinstance(block, (int, str)) and not isinstance(block, bool) for block in ids
    ):
        raise UsageError(f"{where}: 'hash_ids' must be a list of integers or strings, one for each block.")
    prompt, output = lengths(values, where, ("input_length", "output_length"), len(ids) * block_size)
    if len(ids) not in (prompt // block_size, -(-prompt // block_size)):
        raise UsageError(
            f"{where}: {len(ids)} hash ids do not fit {prompt} tokens in blocks of {block_size}; "
            "give the trace's own block size with --block-size."
        )
    return TraceRow(_at_s(values, where), prompt, output, tuple(ids))


def _at_s(values: Mapping[str, Any], where: str) -> float | None:
    stamp = values.get("timestamp")
    if stamp is None:
        return None
    unit = "seconds" if "chat_id" in values else "milliseconds"
    if isinstance(stamp, bool) or not isinstance(stamp, (int, float)):
        raise UsageError(f"{where}: 'timestamp' must be a number of {unit}.")
    return float(stamp) if unit == "seconds" else stamp / _MS_PER_S
