"""Which blocks can be found in an engine's cache, from its events alone."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hitcurve.kv_events import BlocksCleared, BlocksRemoved, BlocksStored, KvEvent

__all__ = ["MOST_BLOCKS", "TIERS", "BlockTable", "LiveBlocks"]

TIERS: Final = ("device", "host", "disk", "external", "other")
_TIER_OF: Final = {
    None: "device",
    "GPU": "device",
    "CPU": "host",
    "CPU_PINNED": "host",
    "DISK": "disk",
    "STORAGE": "disk",
    "EXTERNAL": "external",
}
"""By the medium of vLLM and SGLang; before vLLM 0.10.2 events name none."""
MOST_BLOCKS: Final = 2_000_000
"""Different blocks that are kept for one publisher, about 400 MB; with more, live blocks are unknown."""

Key = tuple[int | None, int | bytes | str]


@dataclass(frozen=True, slots=True)
class LiveBlocks:
    """What can be found in one tier."""

    blocks: int
    """Different blocks: one for each hash."""
    duplicate_blocks: int
    """Copies beyond the first: memory that holds nothing new."""
    duplicate_hashes: int
    """Blocks of which there is more than one copy."""


class BlockTable:
    """Counts copies by hash. Unknown until it is told that the cache is empty, and after ``forget``."""

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        self.stored: Counter[str] = Counter()
        """By tier, blocks stored since watching began, each copy counted; so are removals."""
        self.removed: Counter[str] = Counter()
        self.clears = 0
        self.unmatched_removals = 0
        """Removals of blocks that were never stored as far as a complete history tells."""
        self._most_blocks = most_blocks
        self._copies: dict[str, dict[Key, int]] = {tier: {} for tier in TIERS}
        self._beyond_first: Counter[str] = Counter()
        self._duplicated: Counter[str] = Counter()
        self._known: frozenset[str] = frozenset()

    @property
    def live(self) -> Mapping[str, LiveBlocks]:
        """By tier, where the contents are known; a tier that nothing was ever stored in is left out."""
        return {
            tier: LiveBlocks(len(self._copies[tier]), self._beyond_first[tier], self._duplicated[tier])
            for tier in TIERS
            if tier in self._known and (tier == "device" or self._copies[tier] or self.stored[tier])
        }

    @property
    def complete(self) -> bool:
        """Whether the contents of the device's tier are known."""
        return "device" in self._known

    def begin_empty(self) -> None:
        """The cache holds nothing now: the engine started."""
        self._drop(TIERS)
        self._known = frozenset(TIERS)

    def forget(self) -> None:
        """Events were lost: what the cache holds is unknown until it is empty once more."""
        self._drop(TIERS)
        self._known = frozenset()

    def take(self, event: KvEvent, *, counted: bool = True) -> None:
        """One event in order; ``counted`` is false for what happened before watching began."""
        match event:
            case BlocksStored():
                self._store(_tier(event.medium), event, counted)
            case BlocksRemoved():
                self._remove(_tier(event.medium), event, counted)
            case BlocksCleared():
                self._clear(counted)

    def _store(self, tier: str, event: BlocksStored, counted: bool) -> None:
        self.stored[tier] += counted * len(event.hashes)
        if tier not in self._known:
            return
        copies = self._copies[tier]
        for one in event.hashes:
            key = (event.group, one)
            before = copies.get(key, 0)
            copies[key] = before + 1
            self._beyond_first[tier] += before > 0
            self._duplicated[tier] += before == 1
        if sum(map(len, self._copies.values())) > self._most_blocks:
            self.forget()

    def _remove(self, tier: str, event: BlocksRemoved, counted: bool) -> None:
        self.removed[tier] += counted * len(event.hashes)
        if tier not in self._known:
            return
        copies = self._copies[tier]
        for one in event.hashes:
            key = (event.group, one)
            before = copies.pop(key, 0)
            if before > 1:
                copies[key] = before - 1
            self._beyond_first[tier] -= before > 1
            self._duplicated[tier] -= before == 2
            self.unmatched_removals += before == 0

    def _clear(self, counted: bool) -> None:
        """The device's blocks are gone. The event does not say whether other tiers were emptied with it."""
        self.clears += counted
        doubtful = {tier for tier in TIERS if tier != "device" and self._copies[tier]}
        self._drop(("device", *doubtful))
        self._known = (self._known | {"device"}) - doubtful

    def _drop(self, tiers: tuple[str, ...]) -> None:
        for tier in tiers:
            self._copies[tier] = {}
            self._beyond_first[tier] = self._duplicated[tier] = 0


def _tier(medium: str | None) -> str:
    return _TIER_OF.get(medium, "other")
