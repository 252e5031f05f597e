"""Sample lines of the text formats; they are the same in Prometheus text 0.0.4 and OpenMetrics 1.0."""

import math
from collections.abc import Iterable

__all__ = ["Lines", "label_text"]


def label_text(pairs: Iterable[tuple[str, str]]) -> str:
    """``a="x",b="y"`` with values escaped; a label with an empty value is the same as none and left out."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs if value)


class Lines:
    """Collects sample lines by metric, in the order they come. ``None`` and non-finite values leave no line."""

    def __init__(self) -> None:
        self.of_metric: dict[str, str] = {}

    def add(self, metric: str, labels: str, value: float | None, own_label: str = "") -> None:
        """One sample. ``labels`` and ``own_label`` are label text, each may be empty."""
        if value is None or not math.isfinite(value):
            return
        joined = f"{labels},{own_label}" if labels and own_label else labels or own_label
        braces = f"{{{joined}}}" if joined else ""
        self.of_metric[metric] = f"{self.of_metric.get(metric, '')}{metric}{braces} {value}\n"

    def extend(self, other: "Lines") -> None:
        """All lines of ``other``, after those already here."""
        for metric, lines in other.of_metric.items():
            self.of_metric[metric] = self.of_metric.get(metric, "") + lines


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
