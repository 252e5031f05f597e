"""Fixtures of the chaos tests."""

import importlib.util
import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hitcurve import cli
from hitcurve.reading import CurveState, Reading, RequestWindowRate, WindowRate, as_json
from hitcurve_chaos import carry_out, command, engine_lock
from hitcurve_chaos.runner import run_planned


@pytest.fixture(scope="session")
def scripted() -> ModuleType:
    """The module ``scripted_world.py`` beside this file (tests are no package, so it is loaded by its path)."""
    path = Path(__file__).with_name("scripted_world.py")
    spec = importlib.util.spec_from_file_location("scripted_world", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-in engines have one address in all tests, wherever else these run on this machine."""
    folder = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr(engine_lock, "lock_folder", lambda: folder)


@pytest.fixture
def world(scripted: ModuleType, tmp_path: Path) -> Any:
    """A world in which every scenario is ok."""
    return scripted.ScriptedWorld(tmp_path)


TARGETS = """\
targets:
  - name: t
    engine: http://127.0.0.1:1
    model: m
    exporter: http://127.0.0.1:1
    load: {profile: shared-system-prompt, rate: 5}
"""


@pytest.fixture
def targets(tmp_path: Path) -> str:
    """A target file whose engine is the ``acted`` world."""
    path = tmp_path / "targets.yaml"
    path.write_text(TARGETS)
    return str(path)


@pytest.fixture
def acted(scripted: ModuleType, world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The world, in which ``hitcurve chaos run`` acts."""
    tools = scripted.tools_of(world)
    monkeypatch.setattr(carry_out, "run_planned", partial(run_planned, tools=tools))
    for module in (carry_out, command):
        monkeypatch.setattr(module, "HttpTransport", lambda: world)
    return world


@pytest.fixture
def chaos() -> Callable[..., int]:
    """``hitcurve chaos`` with these words; its exit code."""

    def called(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            cli.main(["chaos", *words])
        code = ended.value.code
        assert isinstance(code, int)
        return code

    return called


@pytest.fixture
def run_chaos(chaos: Callable[..., int], acted: Any, targets: str) -> Callable[..., int]:
    """``hitcurve chaos run`` in the world, with short times and further words; its exit code."""

    def called(*words: str) -> int:
        times = ["--baseline", "5s", "--hold", "6s", "--recover-within", "20s", "--seed", "7"]
        return chaos("run", "--targets", targets, "--out", str(acted.folder), *times, *words)

    return called


START = 1_760_000_000.0
FAULT = 30.0
STATES = [(0, "cold"), (4, "warming"), (14, "steady"), (30, "collapsed"), (32, "warming"), (44, "steady")]


def _rate_at(second: int) -> float | None:
    if second in (20, 21):
        return None
    since = second if second < FAULT else second - FAULT
    return 0.86 * (1 - math.exp(-since / 4))


def _reading(second: int) -> Reading:
    rate = _rate_at(second)
    state = next(name for at, name in reversed(STATES) if second >= at)
    return Reading(
        target="http://127.0.0.1:8000/metrics",
        engine="0",
        at_s=START + second,
        up=True,
        windows=(WindowRate(5.0, 1000.0, 1000.0 * (rate or 0.0), rate), WindowRate(30.0, 6000.0, 3000.0, 0.5)),
        request_window=RequestWindowRate(1000, 1000.0, 0.8 - 0.002 * max(second - FAULT, 0), 33.0),
        cumulative_hit_rate=0.79,
        kv_usage=0.3 + 0.2 * math.sin(second / 5),
        preemptions_total=2.0,
        evicted_blocks_total=float(10 * second),
        state=CurveState(state, "reset" if state == "collapsed" else None, START + second),  # type: ignore[arg-type]
    )


def _verdict(**changes: Any) -> dict[str, Any]:
    return {
        "scenario": "reset-prefix-cache",
        "title": "The prefix cache is reset under load",
        "verdict": "ok",
        "expected": "The rate-based hit rate falls at once and climbs back.",
        "seen": "It fell from 86.0 % to 0.0 % within 1 scrape & was steady again after 14 s <ok>.",
        "numbers": {"baseline_rate": 0.86, "scrapes_to_name": 1, "lag_s": None},
        "baseline_from_s": START + 14,
        "fault_from_s": START + FAULT,
        "fault_to_s": START + FAULT + 1,
        "recovered_at_s": START + 44,
        "finished_at_s": START + 55,
        "states": [{"at_s": START + 30, "state": "collapsed", "cause": "reset"}],
        "restored": True,
        "problems": [],
        **changes,
    }


def _request_row(second: float, cached: int | None, ttft: float) -> dict[str, Any]:
    return {
        "at_s": START + second,
        "load": "background",
        "profile": "shared-system-prompt",
        "group": "7",
        "model": "simulated",
        "status": 200,
        "outcome": "ok",
        "reason": None,
        "ttft_s": ttft,
        "tpot_s": 0.004,
        "duration_s": ttft + 0.03,
        "prompt_tokens": 1000,
        "completion_tokens": 8,
        "cached_tokens": cached,
    }


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """The folder of a run of one scenario, a minute long."""
    run = {
        "hitcurve_version": "0.1.0",
        "seed": 7,
        "started_at_s": START,
        "finished_at_s": START + 60,
        "engine": {"kind": "sim", "version": "0.32.0", "url": "http://127.0.0.1:8000", "model": "simulated"},
        "exporter": None,
        "load": [],
        "scenarios": ["reset-prefix-cache"],
        "machine": {},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    lines = [json.dumps(as_json(_reading(second))) for second in range(60)]
    (tmp_path / "readings.jsonl").write_text("\n".join(lines) + "\n")
    rows = [_request_row(s / 2, 880 if s % 6 else 0, 0.02 if s % 6 else 0.11) for s in range(120)]
    rows.append(_request_row(60, None, 0.02))
    (tmp_path / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "verdicts.json").write_text(json.dumps([_verdict()]))
    (tmp_path / "journal.jsonl").write_text(
        json.dumps({"at_s": START + 30, "scenario": "reset-prefix-cache", "event": "fault_injected", "detail": {}})
    )
    return tmp_path
