"""The curve against libCacheSim's LRU, an independent implementation (PyPI ``libcachesim``)."""

import random

import numpy as np
import pytest

from hitcurve_simulator.estimate.accesses import Accesses
from hitcurve_simulator.estimate.hit_curve import hit_curve_of

libcachesim = pytest.importorskip(
    "libcachesim", reason="libCacheSim is not installed: pip install libcachesim (built for Linux with glibc 2.34)"
)

POOLS = (1, 2, 5, 10, 40, 160, 400)


def chains(seed: int) -> list[list[int]]:
    """Chats that grow and share their beginnings; a block is named by its whole prefix."""
    dice = random.Random(seed)
    open_chats = [[number] for number in range(5)]
    found = []
    for number in range(400):
        chat = dice.choice(open_chats)
        found.append(list(chat))
        if dice.random() < 0.6:
            chat.extend(1_000 * (number + 1) + place for place in range(dice.randrange(1, 4)))
        if dice.random() < 0.1:
            open_chats.append(chat[: dice.randrange(1, len(chat) + 1)])
    return found


def hits_of_libcachesim(requests: list[list[int]], pool: int) -> int:
    """Each request is looked up as a whole, then used tail first, as the curve assumes."""
    cache = libcachesim.LRU(cache_size=pool, hashpower=16)
    request = libcachesim.Request(obj_size=1, op=libcachesim.ReqOp.OP_GET)
    hits = 0
    for ids in requests:
        for one in ids:
            request.obj_id = one
            if cache.find(request, update_cache=False) is None:
                break
            hits += 1
        for one in reversed(ids):
            request.obj_id = one
            cache.get(request)
    return hits


def test_hits_are_those_of_libcachesim_at_every_size() -> None:
    requests = chains(seed=1)
    lengths = [len(ids) for ids in requests]
    names = np.array([one for ids in requests for one in ids], dtype=np.uint64)
    sizes = np.array(lengths, dtype=np.int64)
    accesses = Accesses(
        1, np.concatenate(([0], np.cumsum(sizes))), names, names, sizes, sizes, np.ones_like(sizes)
    )
    curve = hit_curve_of(accesses)
    ours = curve.hit_blocks(np.array(POOLS)).tolist()
    assert ours == [hits_of_libcachesim(requests, pool) for pool in POOLS]
    assert len(set(ours)) > 4
