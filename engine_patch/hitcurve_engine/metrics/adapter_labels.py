"""A bounded label: adapters come and go by the hundred, series must not."""

from typing import Final

__all__ = ["OTHER", "AdapterLabels"]

OTHER: Final = "other"


class AdapterLabels:
    """The ``adapter`` label: empty for the base model, ``other`` for all but the first ``limit`` adapters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def of(self, adapter: str | None) -> str:
        """The label of an adapter by name."""
        if adapter is None or adapter in self._known:
            return adapter or ""
        if len(self._known) >= self._limit:
            return OTHER
        self._known.add(adapter)
        return adapter
