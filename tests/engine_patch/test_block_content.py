"""Keys of what is in a block by the engine's own hashes: the same findings as by tokens, and no token is sent."""

import random
from typing import Any

import pytest

from hitcurve.hashing import Adapter, block_hashes, hash_function
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import LOOKUP, STORED
from hitcurve_engine.recording.block_content import are_plain_hashes, content_by_hashes
from hitcurve_engine.recording.event_reader import HASHING, EventReader
from hitcurve_engine.recording.replay import Replay
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

ROOT = bytes(range(32))
SHAPE = CacheShape(32, 16, 0, 1, full_attention=True, pool_blocks=100, withheld_blocks=0)


def history(seed: int) -> list[tuple[Any, ...]]:
    """Raw events of requests in blocks of two hashes; some have a salt or an adapter, and all are stored."""
    dice = random.Random(seed)
    events: list[tuple[Any, ...]] = []
    stored: dict[bytes, int] = {}
    for number in range(120):
        tokens = sorted(dice.randrange(3) for _ in range(dice.randrange(1, 5) * 32 + 5))
        request = Request(f"r{number}", tokens, dice)
        keys = request.block_hashes[1::2]
        hit = 0
        while hit < len(keys) and keys[hit] in stored:
            hit += 1
        blocks = [Block(stored.get(key, 1 + number * 10 + place)) for place, key in enumerate(keys)]
        at_s, hashes = float(number), request.block_hashes
        name = request.request_id
        events.append((LOOKUP, at_s, name, len(tokens), hit * 32, False, None, hashes, request))
        events.append((STORED, at_s, name, (0, hit, len(keys), hashes, blocks, 0, None), request))
        stored.update({key: block.block_id for key, block in zip(keys, blocks, strict=True)})
    return events


class Block:
    def __init__(self, block_id: int) -> None:
        self.block_id = block_id


class Request:
    def __init__(self, request_id: str, tokens: list[int], dice: random.Random) -> None:
        self.request_id = request_id
        self.all_token_ids = tokens
        self.cache_salt = dice.choice([None, None, "one"])
        self.lora_request = dice.choice([None, None, Lora()])
        adapter = None if self.lora_request is None else Adapter("sql", "/sql")
        self.block_hashes = block_hashes(tokens, 16, "sha256", ROOT, adapter=adapter, salt=self.cache_salt)


class Lora:
    lora_name = "sql"
    lora_int_id = 1
    lora_path = "/sql"


def replayed(events: list[tuple[Any, ...]], algorithm: str | None) -> tuple[list[tuple[Any, ...]], Any]:
    """The plain events, and the totals of their replay."""
    switch = Switch()
    reader, replay = EventReader(SHAPE, switch, isolated=True), Replay(SHAPE, Settings(), switch)
    plain: list[tuple[Any, ...]] = []
    reader.trust_hashes(algorithm, ROOT, plain)
    for event in events:
        reader.read(event, plain)
    for one in plain:
        replay.take(one)
    for request in {event[2] for event in events}:
        replay.ledger.scheduled(request, 1e9)
    assert switch.errors == {}
    return plain, replay.ledger.totals


def senders_of_tokens(plain: list[tuple[Any, ...]]) -> set[str]:
    """Requests of which tokens were sent."""
    tokens = {LOOKUP: lambda event: event[11], STORED: lambda event: event[3][7]}
    return {event[2] for event in plain if event[0] in tokens and tokens[event[0]](event) is not None}


@pytest.mark.parametrize("seed", range(4))
def test_by_hashes_the_findings_are_those_by_tokens(seed: int) -> None:
    events = history(seed)
    by_tokens, expected = replayed(events, None)
    by_hashes, found = replayed(events, "sha256")
    assert found == expected
    assert found.miss_tokens["isolated"] > 0
    assert by_hashes[0] == (HASHING, "sha256", ROOT)
    plain = {event[2] for event in events if not (event[-1].cache_salt or event[-1].lora_request)}
    assert senders_of_tokens(by_hashes)
    assert not senders_of_tokens(by_hashes) & plain
    assert senders_of_tokens(by_tokens) & plain


def test_an_engine_that_hashes_otherwise_is_found_out_at_its_first_plain_request() -> None:
    events = history(5)
    requests = {event[2]: event[-1] for event in events}
    for request in requests.values():
        request.block_hashes[:] = [bytes(reversed(name)) for name in request.block_hashes]
    plain, found = replayed(events, "sha256")
    first = next(name for name, one in requests.items() if not (one.cache_salt or one.lora_request))
    place = plain.index((HASHING, None, None))
    assert plain.count((HASHING, None, None)) == 1
    assert plain[place + 1][:3:2] == (LOOKUP, first)
    all_by_tokens, _ = replayed(events, None)
    assert senders_of_tokens(plain) == senders_of_tokens(all_by_tokens)
    assert found.miss_tokens["isolated"] > 0


@pytest.mark.parametrize(
    ("algorithm", "root"),
    [(None, ROOT), ("builtin", ROOT), ("sha256", 5), ("sha256", None), ("no such one", ROOT)],
)
def test_where_the_hashes_cannot_be_computed_all_tokens_are_sent(algorithm: str | None, root: Any) -> None:
    assert content_by_hashes(algorithm, root, 16) is None
    told: list[Any] = []
    EventReader(SHAPE, Switch(), isolated=True).trust_hashes(algorithm, root, told)
    assert told == []


def test_without_the_reason_isolated_nothing_is_told() -> None:
    told: list[Any] = []
    EventReader(SHAPE, Switch(), isolated=False).trust_hashes("sha256", ROOT, told)
    assert told == []


def test_a_key_is_the_hash_of_the_last_part_of_its_block() -> None:
    keys = content_by_hashes("sha256", ROOT, 16)
    assert keys is not None
    tokens = tuple(range(64))
    parent = keys.key_of(keys.root, tokens[:32])
    expected = block_hashes(list(tokens), 16, "sha256", ROOT)
    assert [parent, keys.key_of(parent, tokens[32:])] == expected[1::2]
    assert are_plain_hashes(keys, tokens[:16], expected[0])
    assert not are_plain_hashes(keys, tokens[:16], expected[1])
    assert not are_plain_hashes(keys, None, expected[0])  # type: ignore[arg-type]
    assert hash_function("sha256")((ROOT, tokens[:16], None)) == expected[0]
