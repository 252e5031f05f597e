"""What keeps equal tokens apart: SGLang's ``extra_key``, adapter and ``cache_salt``.

The engine writes the adapter's id behind the ``extra_key`` without a separator (0.5.22,
``srt/managers/schedule_batch.py``): ``extra_key="a"`` with adapter ``"bc"`` and ``extra_key="ab"`` with adapter
``"c"`` share one namespace. The KV entries of one adapter are then served to another.
"""

from collections.abc import Hashable
from dataclasses import dataclass

__all__ = ["Namespace", "SharedNamespaces"]


@dataclass(frozen=True, slots=True)
class Namespace:
    """Where a request comes from."""

    extra_key: str | None = None
    adapter: str | None = None
    cache_salt: str | None = None

    @property
    def tree_key(self) -> tuple[str | None, str | None]:
        """What the radix tree tells namespaces apart by. An empty text is none."""
        key = (self.extra_key or "") + (self.adapter or "") or None
        return key, self.cache_salt or None

    @property
    def meant(self) -> Hashable:
        """What the senders mean to keep apart."""
        return self.extra_key or None, self.adapter or None, self.cache_salt or None


class SharedNamespaces:
    """Notes namespaces that are meant to differ and share one tree key."""

    def __init__(self) -> None:
        self._senders: dict[Hashable, dict[Hashable, Namespace]] = {}

    def note(self, namespace: Namespace) -> None:
        """Take one request's namespace."""
        self._senders.setdefault(namespace.tree_key, {}).setdefault(namespace.meant, namespace)

    @property
    def found(self) -> list[list[Namespace]]:
        """Groups of namespaces that share their entries although they should not."""
        return [list(group.values()) for group in self._senders.values() if len(group) > 1]
