"""The whole corpus: curve number ``n`` of a seed is always the same one."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from labelled_curves.cuts import CUTS
from labelled_curves.healthy import HEALTHY
from labelled_curves.records import LabelledCurve
from labelled_curves.simulated import SIMULATED
from labelled_curves.steps import STEPS

__all__ = ["corpus"]

Kind = Callable[[np.random.Generator], LabelledCurve]


def corpus(curves: int, seed: int) -> Iterator[LabelledCurve]:
    """So many curves. Kinds come in turn, as often as their weights say."""
    kinds: list[tuple[Kind, int]] = [*HEALTHY.items(), *CUTS.items(), *STEPS.items(), *SIMULATED.items()]
    turns = sorted(
        ((turn + 0.5) / weight, number) for number, (_, weight) in enumerate(kinds) for turn in range(weight)
    )
    for number in range(curves):
        kind, _ = kinds[turns[number % len(turns)][1]]
        yield replace(kind(np.random.default_rng((seed, number))), seed=number)
