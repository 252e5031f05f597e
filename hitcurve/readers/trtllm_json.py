"""TensorRT-LLM's own ``/metrics``: iteration statistics as a JSON list, not a page in Prometheus' format.

Read are ``kvCacheStats`` (``reusedBlocks`` and ``missedBlocks`` since start, ``tokensPerBlock``, ``maxNumBlocks``)
and the queue of the newest iteration, by the names that ``tensorrt_llm/metrics/collector.py`` reads (main branch,
2026). Each iteration is handed out once: an empty list says that none was finished since somebody last asked.
"""

import json
from typing import Any

from hitcurve import flags
from hitcurve.readers.engines import is_count
from hitcurve.readers.refusal import PageRefused
from hitcurve.sample import EngineSample, LookupCounters

__all__ = ["LOOKED_FOR", "read_trtllm_json"]

LOOKED_FOR = "kvCacheStats.reusedBlocks"
_ENGINE = "0"


def read_trtllm_json(text: str, *, at_s: float, monotonic_s: float) -> EngineSample | None:
    """The sample of the engine, without counters where no iteration is told; ``None`` for any other text.

    Raises PageRefused where the statistics are there and say nothing of the cache.
    """
    try:
        iterations = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(iterations, list):
        return None
    if not iterations:
        return EngineSample(engine=_ENGINE, at_s=at_s, monotonic_s=monotonic_s)
    newest = iterations[-1]
    if not isinstance(newest, dict) or "iter" not in newest:
        return None
    cache = newest.get("kvCacheStats")
    reused, missed = (_count(cache, key) for key in ("reusedBlocks", "missedBlocks"))
    if reused is None or missed is None:
        raise PageRefused(
            f"The page has iteration statistics of TensorRT-LLM without {LOOKED_FOR} and missedBlocks."
        )
    block_size = _whole(cache, "tokensPerBlock")
    return EngineSample(
        engine=_ENGINE,
        at_s=at_s,
        monotonic_s=monotonic_s,
        lookups=LookupCounters(
            reused + missed, reused, unit="blocks", tokens_per_unit=block_size, spelling=LOOKED_FOR
        ),
        running=_count(newest, "numActiveRequests"),
        waiting=_count(newest, "numQueuedRequests"),
        block_size=block_size,
        pool_blocks=_whole(cache, "maxNumBlocks"),
        flags=() if block_size else (flags.UNKNOWN_BLOCK_SIZE,),
    )


def _count(values: Any, key: str) -> float | None:
    value = values.get(key) if isinstance(values, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if is_count(number) else None


def _whole(values: Any, key: str) -> int | None:
    count = _count(values, key)
    return int(count) if count and count == int(count) else None
