"""The plain rule of trace studies: an LRU list over all blocks of a prompt, a partial last block included."""

from hitcurve_simulator.lru.rules import BlockLru, Refresh

__all__ = ["BlockLru", "Refresh"]
