"""The log of prompts is one that ``hitcurve reconcile`` reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.plan import LoadOptions, plan_load
from hitcurve_loadtests.prompt_log import PromptLog
from hitcurve_loadtests.records import RequestRecord
from hitcurve_simulator.reconcile.request_log import read_logs
from hitcurve_simulator.traces.text import Utf8Bytes

BODIES: list[dict[str, Any]] = [
    {"model": "m", "prompt": "say it", "max_tokens": 2, "cache_salt": "red"},
    {"model": "m", "messages": [{"role": "user", "content": "say it"}]},
]


def record(outcome: Any, status: int | None) -> RequestRecord:
    return RequestRecord(
        at_s=100.0,
        load="x",
        profile="unique",
        group="g",
        model="m",
        status=status,
        outcome=outcome,
        reason=None if outcome == "ok" else "the stream was cut",
        ttft_s=0.1,
        tpot_s=None,
        duration_s=2.0,
        prompt_tokens=6,
        completion_tokens=2,
        cached_tokens=3,
        late_s=None,
    )


def test_what_is_logged_is_what_is_read(tmp_path: Path) -> None:
    log = PromptLog(tmp_path / "prompts.jsonl")
    log.append(json.dumps(BODIES[0]).encode(), record("ok", 200), "it")
    log.append(json.dumps(BODIES[1]).encode(), record("failed", 200), "")
    first, second = read_logs([tmp_path / "prompts.jsonl"], 16, Utf8Bytes()).requests
    assert first.row is not None
    assert list(first.row.request.prompt_token_ids or ()) == list(b"say it")
    assert (first.row.request.cache_salt, first.row.output_token_ids) == ("red", tuple(b"it"))
    served = first.served
    assert (served.failure, served.prompt_tokens, served.cached_tokens) == (None, 6, 3)
    assert (served.started_s, served.ended_s) == (100.0, 102.0)
    assert second.served.failure == "the stream was cut"
    assert (tmp_path / "prompts.jsonl").stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="the prompts cannot be written"):
        PromptLog(tmp_path / "none" / "prompts.jsonl").append(b"{}", record("ok", 200), "")
    with pytest.raises(UsageError, match="--log-prompts writes into the folder of --out"):
        plan_load(LoadOptions(profile="unique", host="http://127.0.0.1:1", log_prompts=True))
