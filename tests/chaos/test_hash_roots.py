"""Roots of replicas are compared like with like: what pages tell or what environments decide, not one of each."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.drivers.pid_file import PidFileProcess
from hitcurve_chaos.opened import Drivers
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.suite import Entry, Suite, plan_suite
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Verdict

ALGORITHM = 'vllm:cache_config_info{block_size="16",engine="0",prefix_caching_hash_algo="sha256"} 1.0\n'


class Replica:
    """Tells its fingerprint after a request, and only from the reading of the page after so many; or never."""

    def __init__(self, fingerprint: str | None, *, late_readings: int = 0) -> None:
        self._fingerprint = fingerprint
        self._unready = late_readings
        self._asked = False

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
        if path == "/version":
            return 200, '{"version": "0.32.0"}'
        if path == "/metrics":
            return 200, ALGORITHM + self._info()
        assert body is not None
        self._asked = True
        return 200, json.dumps({"choices": [{"text": "x", "token_ids": [1]}], "usage": {}})

    def _info(self) -> str:
        if self._fingerprint is None or not self._asked:
            return ""
        self._unready -= 1
        return (
            f'hitcurve_engine_hash_root_info{{fingerprint="{self._fingerprint}"}} 1\n' if self._unready < 0 else ""
        )


class Environment(PidFileProcess):
    """A driver that only knows the environment."""

    def environment(self) -> dict[str, str]:
        return {}


@pytest.fixture
def judged(scripted: ModuleType, tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as servers:

        def judge(*replicas: Replica) -> Verdict:
            urls = [servers.enter_context(scripted.serve(replica)) for replica in replicas]
            targets = [Target(f"r{number}", url, "m") for number, url in enumerate(urls)]
            target = Target("r0", urls[0], "m", replicas=targets[1:])
            drivers = Drivers({one.name: Environment(tmp_path / "none") for one in targets})
            entry = Entry("hash-seed-disagreement", {"correctness": "false"})
            planned = plan_suite(Suite("s", "S", [entry]), {}, 7)
            (verdict,) = run_planned(target, planned, tmp_path / "run", 7, drivers=drivers).verdicts
            return verdict

        yield judge


@pytest.mark.parametrize(
    ("replicas", "word", "told"),
    [
        ((("1a", 0), ("1a", 0)), "ok", "r1: its page tells 1a"),
        ((("1a", 0), ("1a", 4)), "ok", "r1: its page tells 1a"),
        ((("1a", 4), ("1a", 0)), "ok", "r0: its page tells 1a"),
        ((("1a", 0), ("2b", 4)), "bad", "r1: its page tells 2b"),
        ((("1a", 0), (None, 0)), "ok", "r0: sha256, PYTHONHASHSEED not set"),
        (((None, 0), (None, 0)), "ok", "r1: sha256, PYTHONHASHSEED not set"),
    ],
)
def test_replicas_with_one_root_are_ok_however_it_is_known(
    replicas: tuple[tuple[str | None, int], ...],
    word: str,
    told: str,
    judged: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (None, 0) in replicas:
        # Nobody needs to wait for what never comes.
        monkeypatch.setattr("hitcurve_chaos.scenarios.hash_seed_disagreement._TELLS_S", 0.2)
    verdict = judged(*(Replica(fingerprint, late_readings=late) for fingerprint, late in replicas))
    assert verdict.verdict == word
    assert told in verdict.seen
