"""The time that requests waited in the engine, where the engine tells it."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def telling(answers: Any) -> Any:
    """An engine's answer with vLLM's metrics of a request in its last event."""
    events: tuple[dict[str, Any], ...] = (
        {"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]},
        {
            "choices": [],
            "usage": {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
            "metrics": {"queue_time_ms": 250.0, "generation_time_ms": None},
        },
    )
    body = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)
    return answers([(0.0, body + b"data: [DONE]\n\n")])


def test_queue_time_is_in_every_line_and_in_the_summary(
    engine: Any, load: Any, telling: Any, tmp_path: Path, read_lines: Any
) -> None:
    engine.answer = lambda exchange: telling
    ended = load("unique", "--host", engine.url, "--users", 1, "--requests", 3, "--out", tmp_path)
    assert ended.code == 0, ended.err
    assert [line["queue_s"] for line in read_lines(tmp_path / "requests.jsonl")] == [0.25] * 3
    summary = json.loads((tmp_path / "load-unique.json").read_text())
    assert summary["queue_s"] == {"count": 3, "p50": 0.25, "p90": 0.25, "p99": 0.25, "max": 0.25}
    (row,) = [line for line in ended.out.splitlines() if "queue, as the engine says" in line]
    assert row.count("250.0 ms") == 4
    assert "queue p50, as the engine says</td><td>250.0 ms" in (tmp_path / "load-unique.html").read_text()


def test_an_engine_that_does_not_tell_has_no_queue_time(engine: Any, load: Any, tmp_path: Path) -> None:
    ended = load("unique", "--host", engine.url, "--users", 1, "--requests", 1, "--out", tmp_path)
    assert "queue" not in ended.out
    summary = json.loads((tmp_path / "load-unique.json").read_text())
    assert summary["queue_s"] == {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}
