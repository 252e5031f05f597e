"""Finished requests are written together, and a disk that refuses is not overlooked."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed
from hitcurve_loadtests.records import RequestLog, RequestRecord

FULL = Path("/dev/full")
NEEDS_FULL = pytest.mark.skipif(
    not FULL.exists(), reason="this system has no /dev/full, which refuses every write"
)


def record(number: int) -> RequestRecord:
    words = dict.fromkeys(("load", "profile", "group", "model"), "x")
    unknown = dict.fromkeys(("reason", "ttft_s", "tpot_s", "prompt_tokens", "completion_tokens", "cached_tokens"))
    good: dict[str, Any] = {"at_s": 0.0, "status": 200, "outcome": "ok", "duration_s": 0.1, "late_s": None}
    return RequestRecord(**words, **unknown, **good, number=number)


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_what_ends_together_is_written_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[Callable[[], None]] = []
    log = RequestLog(tmp_path / "requests.jsonl", later.append)
    writes: list[int] = []
    real_write = os.write

    def counted_write(descriptor: int, data: bytes) -> int:
        writes.append(data.count(b"\n"))
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", counted_write)
    for number in range(3):
        log.append(record(number))
    assert (len(later), writes) == (1, [])
    later.pop()()
    log.append(record(3))
    later.pop()()
    log.append(record(4))
    log.close()
    assert writes == [3, 1, 1]
    assert numbers(log.path) == [0, 1, 2, 3, 4]


def test_without_an_event_loop_each_is_written_at_once(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "requests.jsonl")
    for number in range(2):
        log.append(record(number))
        assert numbers(log.path) == list(range(number + 1))
    log.close()
    log.close()


def test_what_a_disk_takes_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RequestLog(tmp_path / "requests.jsonl")
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:100]))
    for number in range(2):
        log.append(record(number))
    log.close()
    assert numbers(log.path) == [0, 1]


@NEEDS_FULL
def test_a_disk_that_refuses_ends_the_load_at_the_next_request() -> None:
    later: list[Callable[[], None]] = []
    log = RequestLog(FULL, later.append)
    log.append(record(1))
    later.pop()()
    with pytest.raises(EnvironmentFailed, match="the results cannot be written to /dev/full: No space left"):
        log.append(record(2))


@NEEDS_FULL
def test_a_disk_that_refuses_the_last_line_is_told_at_the_end() -> None:
    log = RequestLog(FULL, lambda call: None)
    log.append(record(1))
    with pytest.raises(EnvironmentFailed, match="No space left"):
        log.close()
