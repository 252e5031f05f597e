"""Numbers drawn for a profile: lengths from a range, ranks by popularity."""

import bisect
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
        self._weights = list(itertools.accumulate((rank + 1) ** -zipf for rank in range(count)))

    def draw(self, source: random.Random) -> int:
        return bisect.bisect(self._weights, source.random() * self._weights[-1], 0, len(self._weights) - 1)
