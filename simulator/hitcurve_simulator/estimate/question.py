"""What is asked about the traffic, with every option settled."""

from dataclasses import dataclass

from hitcurve_simulator.estimate.model_memory import KvMemory

__all__ = ["Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """``pools``: usable blocks (of the traffic's block size) to give exact values for; none: a grid.

    ``block_sizes``, ``split`` (a name of ``isolation.SPLITS``), ``replicas`` and ``breaks`` ask for more;
    ``every`` for the curve at each size where it bends.
    """

    pools: tuple[int, ...] = ()
    memory: KvMemory | None = None
    block_sizes: tuple[int, ...] = ()
    split: str | None = None
    replicas: int | None = None
    seed: int = 0
    breaks: bool = False
    every: bool = False
