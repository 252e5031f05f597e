"""What vLLM's old ``gpu_prefix_cache_*`` counters count: blocks in 0.8.5, tokens since 0.9.0, under one name."""

from typing import Final

from hitcurve.readers.engines import EngineLabels, MetricTable
from hitcurve.readers.exposition import Page
from hitcurve.sample import SourceUnit

__all__ = ["unit_of_old_counters"]

_ENOUGH_PROMPT_TOKENS: Final = 1000
_TOKENS_FROM: Final = 0.5


def unit_of_old_counters(
    page: Page, table: MetricTable, labels: EngineLabels, queries: float
) -> SourceUnit | None:
    """The unit by the help text; without one by what else the page shows; ``None`` where nothing tells.

    The ``engine`` label of cache_config_info came with 0.9.1, after the change to tokens. Else the volume tells:
    lookups in tokens are at least about as many as prompt tokens, lookups in blocks a small fraction of them.
    """
    for printed, text in page.helps.items():
        if "gpu_prefix_cache" in printed:
            if "block" in text.lower():
                return "blocks"
            if "token" in text.lower():
                return "tokens"
    config = table.series("cache_config_info", labels)
    if config and "engine" in config[0].labels:
        return "tokens"
    prompt_tokens = table.counter("prompt_tokens", labels)
    if prompt_tokens is None or prompt_tokens < _ENOUGH_PROMPT_TOKENS or queries == 0:
        return None
    return "tokens" if queries / prompt_tokens > _TOKENS_FROM else "blocks"
