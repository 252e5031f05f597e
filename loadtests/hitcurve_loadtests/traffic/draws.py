"""Numbers drawn for a profile: lengths from a range, ranks by popularity."""

import itertools
import random
from dataclasses import dataclass

__all__ = ["Length", "Popularity"]


@dataclass(frozen=True, slots=True)
class Length:
    """A number of tokens, or a range from which each length is drawn uniformly, both ends included."""

    least: int
    most: int

    def draw(self, source: random.Random) -> int:
        return self.least if self.least == self.most else source.randint(self.least, self.most)


class Popularity:
    """Draws ranks 0 … count-1; rank r has the weight 1 / (r + 1) ** zipf, so 0 draws all alike."""

    def __init__(self, count: int, zipf: float) -> None:
        self._ranks = range(count)
        self._weights = list(itertools.accumulate((rank + 1) ** -zipf for rank in self._ranks))

    def draw(self, source: random.Random) -> int:
        return source.choices(self._ranks, cum_weights=self._weights)[0]
