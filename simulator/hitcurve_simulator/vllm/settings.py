"""Limits of the scheduler, named as vLLM's options."""

from dataclasses import dataclass

__all__ = ["SchedulerSettings"]


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What one step may do at most."""

    max_num_batched_tokens: int = 2048
    """Token budget of a step."""
    max_num_seqs: int = 128
    """Requests that run at once."""
    max_model_len: int | None = None
    """Longest sequence, prompt and output; None: whatever fits the pool."""
    enable_chunked_prefill: bool = True
    """Off: a prompt that exceeds what is left of the budget waits."""
    max_adapters: int | None = None
    """Adapters active in one step (``--max-loras``); None: any number."""
