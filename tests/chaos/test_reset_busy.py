"""A reset counts as made under load only where the engine itself shows that a request held blocks."""

import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.engine_counters import EngineCounters
from hitcurve_chaos.runner import run_scenarios
from hitcurve_chaos.scenarios.reset_busy import held_blocks
from hitcurve_chaos.targets import Target

LONG = 50
WAIT_S = 30.0


class Server:
    """Says that requests run until their answers are delivered, whatever the engine behind it does.

    ``works``: the engine behind it really runs them when a reset comes, and so preempts. ``late``: its page never
    shows them, and the engine refuses from so many plain resets on.
    """

    def __init__(self, *, works: bool, late: int | None = None) -> None:
        self.works = works
        self.late = late
        self.resets: list[str] = []
        self._lock = threading.Lock()
        self._running = self._lookups = self._preemptions = 0
        self._preempting_resets = threading.Semaphore(0)

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
        if path == "/metrics":
            return 200, self._page()
        if path.startswith("/reset_prefix_cache"):
            return self._reset(path) if method == "POST" else (405, "")
        assert body is not None
        if body["max_tokens"] < LONG or "cache_salt" in body:
            return 200, self._completion(body)
        with self._lock:
            self._running += 1
        assert self._preempting_resets.acquire(timeout=WAIT_S)
        with self._lock:
            self._running -= 1
        return 200, self._completion(body)

    @property
    def preempting(self) -> list[str]:
        """Resets that were to preempt."""
        return [path for path in self.resets if "reset_running_requests" in path]

    def _reset(self, path: str) -> tuple[int, str]:
        self.resets.append(path)
        if "reset_running_requests" in path:
            with self._lock:
                self._preemptions += self.works
            self._preempting_resets.release()
        elif self.late is not None and len(self.resets) > self.late:
            return 200, '{"success": false}'
        return 200, '{"success": true}'

    def _completion(self, body: dict[str, Any]) -> str:
        with self._lock:
            self._lookups += not self._running * len(body["prompt"])
        usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": {"cached_tokens": 0}}
        return json.dumps({"choices": [{"text": "x", "token_ids": [1]}], "usage": usage})

    def _page(self) -> str:
        labels = '{engine="0",model_name="m"}'
        return "".join(
            f"# TYPE {name} {kind}\n{name}{suffix}{labels} {value}\n"
            for name, kind, suffix, value in (
                ("vllm:prefix_cache_queries", "counter", "_total", self._lookups),
                ("vllm:prefix_cache_hits", "counter", "_total", 0),
                ("vllm:num_preemptions", "counter", "_total", self._preemptions),
                ("vllm:num_requests_running", "gauge", "", self._running * (self.late is None)),
                ("vllm:num_requests_waiting", "gauge", "", 0),
            )
        )


@pytest.mark.parametrize(("works", "verdict", "attempts"), [(True, "ok", 1), (False, "invalid", 5)])
def test_a_server_that_lags_behind_its_engine_is_not_taken_for_a_busy_engine(
    scripted: ModuleType, tmp_path: Path, *, works: bool, verdict: str, attempts: int
) -> None:
    server = Server(works=works)
    settings = {"output_tokens": LONG, "at_once": 1, "correctness": "false", "recover_within": 10}
    with scripted.serve(server) as url:
        (found,) = run_scenarios(Target("t", url, "m"), ["reset-busy"], tmp_path / "run", 7, settings)
    assert (found.verdict, found.numbers["attempts"]) == (verdict, attempts)
    assert found.numbers["running_at_reset"] == 1
    assert found.numbers["held_at_reset"] == int(works)
    assert len(server.preempting) == attempts
    bitten = [problem for problem in found.problems if problem.startswith("the fault did not bite: whether it")]
    assert len(bitten) == (not works)


def test_a_plain_reset_is_asked_for_until_the_engine_is_busy(scripted: ModuleType, tmp_path: Path) -> None:
    server = Server(works=False, late=3)
    settings = {"output_tokens": LONG, "at_once": 1, "correctness": "false", "recover_within": 10}
    with scripted.serve(server) as url:
        (found,) = run_scenarios(Target("t", url, "m"), ["reset-busy"], tmp_path / "run", 7, settings)
    numbers = {
        name: found.numbers[name] for name in ("attempts", "plain_reset", "held_at_reset", "running_at_reset")
    }
    assert numbers == {"attempts": 1, "plain_reset": "refused", "held_at_reset": 1, "running_at_reset": 0}
    assert (found.verdict, len(server.resets), len(server.preempting)) == ("ok", 5, 1)


def counters(running: float | None, preemptions: float | None) -> EngineCounters:
    return EngineCounters(None, None, preemptions, None, None, running, None, None, None, None, None)


@pytest.mark.parametrize(
    ("plain", "preemptions", "running", "unanswered", "held"),
    [
        ("refused", (0, 0), 0, False, True),
        ("applied", (3, 4), 1, True, True),
        ("unverified", (3, 4), 0, False, True),
        ("applied", (3, 3), 1, True, False),
        ("applied", (None, None), 1, True, True),
        ("applied", (None, None), 1, False, False),
        ("applied", (None, None), 0, True, False),
        ("applied", (None, None), None, True, False),
        ("applied", (3, None), 1, True, True),
    ],
)
def test_what_shows_that_blocks_were_held(
    plain: str,
    preemptions: tuple[float | None, float | None],
    running: float | None,
    *,
    unanswered: bool,
    held: bool,
) -> None:
    before, after = counters(running, preemptions[0]), counters(0, preemptions[1])
    assert held_blocks(plain, before, after, unanswered_after_reset=unanswered) is held
