"""What the load process measures, against the engine's own log of when it received and sent."""

import statistics
import threading
from pathlib import Path
from typing import Any

GAP_S = 0.02
WORDS = 20
"""Events of about 70 bytes, so that a reader that waits for 1,024 bytes is late by a dozen gaps."""


def test_times_are_those_of_the_engine(
    engine: Any, load: Any, good_stream: Any, tmp_path: Path, read_lines: Any
) -> None:
    engine.answer = lambda exchange: good_stream(["w"] * WORDS, first_s=0.05, gap_s=GAP_S)
    ended = load("unique", "--host", engine.url, "--users", 1, "--requests", 5, "--out", tmp_path)
    assert ended.code == 0, ended.err
    lines = read_lines(tmp_path / "requests.jsonl")
    ttft = [
        (line["ttft_s"], it.sent_s[0] - it.received_s) for line, it in zip(lines, engine.exchanges, strict=True)
    ]
    # The engine cannot have sent later than the client saw it.
    assert all(measured >= true for measured, true in ttft)
    assert statistics.median(measured - true for measured, true in ttft) < 5 * GAP_S
    tpot = [
        (line["tpot_s"], (it.sent_s[WORDS - 1] - it.sent_s[0]) / (WORDS - 1))
        for line, it in zip(lines, engine.exchanges, strict=True)
    ]
    assert all(true >= GAP_S for _, true in tpot)
    assert abs(statistics.median(measured - true for measured, true in tpot)) < GAP_S / 2
    assert all(line["duration_s"] >= line["ttft_s"] + (WORDS - 1) * GAP_S - 5 * GAP_S for line in lines)


def test_an_open_loop_does_not_wait_for_a_stalled_engine(engine: Any, load: Any, good_stream: Any) -> None:
    together = threading.Barrier(30, timeout=30)

    def hold_back_until_all_were_asked(exchange: Any) -> Any:
        together.wait()
        return good_stream(["w"])

    engine.answer = hold_back_until_all_were_asked
    ended = load("unique", "--host", engine.url, "--rate", 100, "--requests", 30, "--json")
    assert ended.summary["requests"]["ok"] == 30


def test_a_closed_loop_keeps_as_many_in_flight_as_it_has_users(engine: Any, load: Any, good_stream: Any) -> None:
    together = threading.Barrier(4, timeout=30)

    def hold_back_until_four_were_asked(exchange: Any) -> Any:
        together.wait()
        return good_stream(["w"])

    engine.answer = hold_back_until_four_were_asked
    ended = load("unique", "--host", engine.url, "--users", 4, "--requests", 12, "--json")
    assert ended.summary["requests"]["ok"] == 12
