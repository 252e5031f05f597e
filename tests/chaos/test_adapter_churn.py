"""Adapter churn against the scripted world: how many adapters at a time, how long, and what is found."""

import json
import re
from types import ModuleType
from typing import Any

import pytest

from hitcurve_chaos.engine_counters import EngineCounters
from hitcurve_chaos.journal import read_journal
from hitcurve_chaos.runner import run_scenarios
from hitcurve_chaos.scenarios import scenario
from hitcurve_chaos.targets import Adapter
from hitcurve_chaos.verdict import Verdict

SETTINGS = {"baseline": 5, "baseline_within": 30, "hold": 6, "recover_within": 20}


def churned(scripted: ModuleType, world: Any, **settings: Any) -> Verdict:
    target, tools = scripted.target_at("http://127.0.0.1:1"), scripted.tools_of(world)
    (verdict,) = run_scenarios(target, ["lora-churn"], world.folder, 7, SETTINGS | settings, tools=tools)
    return verdict


def test_churn_loads_uses_and_unloads_generations(scripted: ModuleType, world: Any) -> None:
    verdict = churned(scripted, world, period=2)
    assert (verdict.verdict, verdict.problems) == ("ok", [])
    assert verdict.numbers["generations"] == 3
    assert verdict.numbers["first_cached_tokens"] == 0
    loaded = [body["lora_name"] for _, path, body in world.calls if path == "/v1/load_lora_adapter"]
    unloaded = [body["lora_name"] for _, path, body in world.calls if path == "/v1/unload_lora_adapter"]
    assert len(set(loaded)) == 6
    assert set(loaded) == set(unloaded)
    assert world.adapters == set()
    used = [settings["model"] for name, settings in world.started if name.startswith("churn")]
    assert [name for generation in used for name in generation] == loaded


def test_a_generation_of_adapters_lives_from_its_first_answer_on(scripted: ModuleType, world: Any) -> None:
    world.load_start_s = 3.0
    verdict = churned(scripted, world, period=2, hold=14)
    assert (verdict.verdict, verdict.problems) == ("ok", [])
    assert verdict.numbers["generations"] == 3
    lines = (world.folder / "requests.jsonl").read_text().splitlines()
    answered = {json.loads(line)["load"] for line in lines}
    assert answered == {"background", "probe", "churn-1", "churn-2", "churn-3"}


@pytest.mark.parametrize(
    ("slots", "settings", "each"),
    [
        (None, {}, ["1-a-1", "1-b-2"]),
        (4, {}, ["1-a-1", "1-b-2", "1-a-3", "1-b-4", "1-a-5"]),
        (4, {"adapters": 1}, ["1-a-1"]),
        (None, {"adapters": 3}, ["1-a-1", "1-b-2", "1-a-3"]),
    ],
)
def test_churn_takes_one_adapter_more_than_the_engine_has_slots_for(
    scripted: ModuleType,
    world: Any,
    monkeypatch: pytest.MonkeyPatch,
    slots: int | None,
    settings: dict[str, int],
    each: list[str],
) -> None:
    counters = EngineCounters(*(None,) * 11, adapter_slots=slots)
    monkeypatch.setattr(scenario, "read_counters", lambda target: counters)
    verdict = churned(scripted, world, **settings)
    assert (verdict.verdict, verdict.problems) == ("ok", [])
    loaded = [body for _, path, body in world.calls if path == "/v1/load_lora_adapter"]
    first = [body for body in loaded if re.search(r"-1-[ab]", body["lora_name"])]
    assert [re.sub(r"^chaos-\d+-[0-9a-f]+-", "", body["lora_name"]) for body in first] == each
    assert {body["lora_path"] for body in first} <= {"/a", "/b"}
    assert (verdict.numbers["adapters_at_a_time"], verdict.numbers["adapter_slots"]) == (len(each), slots)


def test_adapters_of_a_generation_never_share_a_name(scripted: ModuleType, world: Any) -> None:
    known = [Adapter("a", "/a"), Adapter("a-2", "/b"), Adapter("a-3", "/b"), Adapter("a", "/b")]
    target, tools = scripted.target_at("http://127.0.0.1:1", adapters=known), scripted.tools_of(world)
    run_scenarios(target, ["lora-churn"], world.folder, 7, SETTINGS | {"adapters": 9}, tools=tools)
    loaded = [body["lora_name"] for _, path, body in world.calls if path == "/v1/load_lora_adapter"]
    assert len(set(loaded)) == len(loaded) >= 9


def test_churn_on_an_engine_that_forgets_the_adapter_in_its_hash_is_bad(scripted: ModuleType, world: Any) -> None:
    world.adapters_share_cache = True
    verdict = churned(scripted, world)
    assert verdict.verdict == "bad"
    assert verdict.problems == [
        "tokens a new adapter found cached at its first request: 640, expected at most 0 (tolerance at_most)"
    ]


def test_churn_on_an_engine_without_the_endpoints_injects_nothing(scripted: ModuleType, world: Any) -> None:
    world.load_adapter_status = 404
    verdict = churned(scripted, world)
    assert (verdict.verdict, verdict.fault_from_s) == ("invalid", None)
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" in verdict.seen
    assert "fault_undoing" not in [entry.event for entry in read_journal(world.folder)]
