"""The process that replays: it is told everything, and neither its end nor that of the engine hurts the other."""

import logging
import marshal
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import EVICT_BLOCKS, GAP, LOOKUP, RESET
from hitcurve_engine.recording.event_reader import EventReader
from hitcurve_engine.recording.frames import EVENTS, STATUS, pack
from hitcurve_engine.recording.known_prefixes import KnownPrefixes
from hitcurve_engine.recording.replay import Replay
from hitcurve_engine.recording.replay_host import ReplayHost
from hitcurve_engine.recording.replay_main import TellingSwitch, serve
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

Start = Callable[..., Any]
SHAPE = CacheShape(16, 16, 0, 1, True, 24, 0)
SHARED = list(range(69))
PATIENCE_S = 60.0


class Keeping:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *record: self.told.append((name, record))


def history(start_engine: Start, make_request: Any, seed: int) -> list[Any]:
    """What the hooks of a small engine say of random traffic."""
    chance = random.Random(seed)
    engine = start_engine(usable=24)
    engine.recorder.probe.started = True  # nobody empties the queue
    running: list[Any] = []
    for number in range(150):
        act = chance.random()
        if act < 0.6:
            tokens = sorted([chance.randrange(3) for _ in range(chance.randrange(1, 6))] * 16)
            request = make_request(f"r{number}", tokens, cache_salt=chance.choice([None, None, "one"]))
            (running.append if engine.admit(request) is not None else engine.finish)(request)
        elif act < 0.7 and running:
            engine.manager.free(running[0])  # preempted
            if engine.admit(running[0]) is None:
                engine.finish(running.pop(0))
        elif act < 0.95 and running:
            engine.finish(running.pop(chance.randrange(len(running))))
        elif act < 0.97:
            engine.recorder.probe.events.append((EVICT_BLOCKS, monotonic(), (1, 2, 3)))
        elif act < 0.98:
            engine.recorder.probe.events.append((GAP, 0.0))
        else:
            engine.manager.reset_prefix_cache()
    return list(engine.recorder.probe.events)


def test_prefixes_are_forgotten_alike_on_both_sides() -> None:
    chance = random.Random(3)
    numbers: KnownPrefixes[int] = KnownPrefixes(100)
    lists: KnownPrefixes[list[int]] = KnownPrefixes(100)
    forgotten = 0
    for _ in range(500):
        last = chance.randrange(20)
        if numbers.get(last) is None:
            assert lists.get(last) is None
            numbers.add(last, last + 1, last + 1)
            lists.add(last, last + 1, list(range(last + 1)))
            forgotten += 1
        else:
            assert lists.get(last) == list(range(last + 1))
    assert 20 < forgotten < 400
    numbers.clear()
    assert numbers.get(last) is None


def test_a_shared_beginning_is_sent_once(start_engine: Start) -> None:
    engine = start_engine(usable=40)
    engine.recorder.probe.started = True
    for number in range(3):
        engine.serve(f"r{number}", [*range(160), *([1000 + number] * 69)])
    reader = EventReader(SHAPE, Switch(), isolated=True)
    plain: list[Any] = []
    for event in engine.recorder.probe.events:
        reader.read(event, plain)
    lookups = [event for event in plain if event[0] == LOOKUP]
    assert [(event[7], event[8], len(event[9]), event[10]) for event in lookups] == [
        (0, 0, 14, 0),
        (10, 0, 14, 10),
        (0, 10, 4, 10),
    ]
    assert lookups[2][6] == lookups[1][9][9]


@pytest.mark.parametrize("seed", range(4))
def test_the_replay_of_packed_events_is_that_of_the_events_themselves(
    start_engine: Start, make_request: Any, seed: int
) -> None:
    events = history(start_engine, make_request, seed)
    direct, packed = Replay(SHAPE, Settings(), Switch()), Replay(SHAPE, Settings(), Switch())
    direct.sinks.append(Keeping())
    packed.sinks.append(Keeping())
    reader = EventReader(SHAPE, Switch(), isolated=True)
    for event in events:
        plain: list[Any] = []
        reader.read(event, plain)
        for one, sent in zip(plain, marshal.loads(pack((EVENTS, plain))[4:])[1], strict=True):
            direct.take(one)
            packed.take(sent)
    assert packed.ledger.totals == direct.ledger.totals
    assert direct.ledger.totals.requests > 20
    told = packed.sinks[0].told  # type: ignore[attr-defined]
    assert told == direct.sinks[0].told  # type: ignore[attr-defined]


def test_every_request_reaches_the_sinks_of_the_process(start_engine: Start, outcomes: Any) -> None:
    engine = start_engine(usual_sinks=True)
    for number in range(8):
        engine.serve(f"r{number}", [number % 2] * 69)
    assert engine.manager.reset_prefix_cache() is True
    assert engine.recorder.flush(PATIENCE_S)
    engine.recorder.close(PATIENCE_S)
    requests = outcomes("request")
    assert [request["hit_tokens"] for request in requests] == [0, 0, *[64] * 6]
    assert all(
        request["query_tokens"] == request["hit_tokens"] + sum(request["miss_tokens"].values())
        for request in requests
    )
    (facts,) = outcomes("engine")
    assert facts["pid"] == os.getpid()
    status = outcomes("totals")[-1]["status"]
    assert (status["errors"], status["dropped_events"], status["events"]) == ({}, 0, 25)
    assert engine.recorder._process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(engine.recorder._process.pid, 0)


def test_the_end_of_the_process_turns_the_patch_off_and_nothing_else(
    start_engine: Start, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [engine_answers(start_engine(usable=20))]
    engine = start_engine(usable=20, usual_sinks=True)
    engine.serve("first", SHARED)
    assert engine.recorder.flush(PATIENCE_S)
    assert engine.recorder._process is not None
    os.kill(engine.recorder._process.pid, signal.SIGKILL)
    with caplog.at_level(logging.WARNING):
        deadline = monotonic() + PATIENCE_S
        while engine.switch.active and monotonic() < deadline:
            assert engine.serve("again", SHARED) == 64
            sleep(0.01)
        assert engine.manager.reset_prefix_cache() is True
        answers.append(engine_answers(engine))
    assert answers[0] == answers[1]
    assert engine.switch.errors == {"recording process": 1}
    assert engine.switch.off_reason == "its recording process ended with code -9"
    assert len(caplog.records) == 1


def engine_answers(engine: Any) -> list[Any]:
    return [engine.serve(f"answer {number}", [number % 3] * (40 + number)) for number in range(12)]


def test_what_the_process_finds_wrong_turns_the_hooks_off(start_engine: Start, make_request: Any) -> None:
    reading, writing = os.pipe()
    switch = TellingSwitch(writing)
    host = ReplayHost(SHAPE, Settings(), switch)
    host.replay.ledger.reset = None  # type: ignore[method-assign, assignment]
    sink: Any = Keeping()
    host.replay.sinks.append(sink)
    resets = [(RESET, 1.0, True)] * 150
    serve(host, switch, [(EVENTS, resets), (STATUS, {"errors": {"free": 2}, "active": False})], writing)
    os.close(writing)
    assert os.read(reading, 1000) == b"off 100 errors in replay.reset\n"
    os.close(reading)
    status = next(record[0] for name, record in sink.told if name == "tick")
    assert (status.errors, status.active) == ({"free": 2, "replay.reset": 150}, False)
    assert sink.told[-1][0] == "close"


def test_errors_after_the_last_word_of_the_engine_are_in_the_last_tick() -> None:
    reading, writing = os.pipe()
    switch = TellingSwitch(writing)
    host = ReplayHost(SHAPE, Settings(), switch)
    host.replay.ledger.reset = None  # type: ignore[method-assign, assignment]
    told: list[dict[str, int]] = []
    sink: Any = Keeping()
    sink.tick = lambda status, totals: told.append(dict(status.errors))
    host.replay.sinks.append(sink)
    serve(host, switch, [(STATUS, {"errors": {"free": 2}}), (EVENTS, [(RESET, 1.0, True)] * 3)], writing)
    os.close(writing)
    os.close(reading)
    assert told == [{"free": 2}, {"free": 2, "replay.reset": 3}]


def test_wishes_to_end_are_left_to_the_engine(start_engine: Start, outcomes: Any) -> None:
    engine = start_engine(usual_sinks=True)
    engine.serve("first", SHARED)
    assert engine.recorder.flush(PATIENCE_S)
    for wish in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(engine.recorder._process.pid, wish)
    engine.serve("second", SHARED)
    assert engine.recorder.flush(PATIENCE_S)
    engine.recorder.close(PATIENCE_S)
    assert [request["request_id"] for request in outcomes("request")] == ["first", "second"]


def test_a_process_that_hangs_is_killed_in_time(start_engine: Start) -> None:
    engine = start_engine(usual_sinks=True)
    engine.serve("first", SHARED)
    assert engine.recorder.flush(PATIENCE_S)
    pid = engine.recorder._process.pid
    os.kill(pid, signal.SIGSTOP)
    began = monotonic()
    engine.recorder.close(timeout_s=0.5)
    assert monotonic() - began < PATIENCE_S / 2
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_even_a_kill_does_not_end_holds_nobody_up(start_engine: Start) -> None:
    engine = start_engine(usual_sinks=True)
    engine.serve("first", SHARED)
    assert engine.recorder.flush(PATIENCE_S)
    process = engine.recorder._process._process
    os.kill(process.pid, signal.SIGSTOP)
    process.kill = lambda: None
    engine.recorder.close(timeout_s=0.1)
    assert process.returncode is None
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


ENGINE_THAT_IS_KILLED = """
import os, signal
from time import monotonic
from hitcurve_engine.probes.adoption import CacheShape
from hitcurve_engine.probes.events import RESET
from hitcurve_engine.recording.recorder import Recorder
from hitcurve_engine.settings import Settings
from hitcurve_engine.switch import Switch

recorder = Recorder(CacheShape(16, 16, 0, 1, True, 24, 0), Settings(), Switch())
recorder.start()
recorder.probe.events.append((RESET, monotonic(), True))
assert recorder.flush(60)
print(recorder._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_ends_with_an_engine_that_is_killed(outcomes: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENGINE_THAT_IS_KILLED], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, deadline = int(done.stdout), monotonic() + PATIENCE_S
    while runs(pid) and monotonic() < deadline:
        sleep(0.02)
    assert not runs(pid)
    assert len(outcomes("reset")) == 1


def runs(pid: int) -> bool:
    """Whether it does; who inherited it may not yet have noticed its end."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
