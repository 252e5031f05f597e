"""From a call that loads an adapter to the requests that find what its earlier weights computed."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


def adapter_folder(place: Path, weights: bytes) -> str:
    place.mkdir(exist_ok=True)
    (place / "adapter_model.safetensors").write_bytes(weights)
    return str(place)


class EngineCore:
    """As much of vLLM's as the hook touches."""

    def __init__(self, manager: Any) -> None:
        self.scheduler = SimpleNamespace(kv_cache_manager=manager)
        self.refuses = False

    def add_lora(self, lora_request: Any) -> bool:
        if self.refuses:
            raise ValueError("no such adapter")
        return True


def test_a_reload_between_two_requests_makes_the_second_one_stale(
    start_engine: Callable[..., Any], tmp_path: Path
) -> None:
    engine = start_engine()
    engine.hooks.hook_engine(EngineCore)
    core = EngineCore(engine.manager)
    path = adapter_folder(tmp_path / "sql", b"old")
    adapter = SimpleNamespace(lora_name="sql", lora_int_id=1, lora_path=path)
    prompt = list(range(69))
    assert core.add_lora(adapter) is True
    assert engine.serve("before", prompt, lora_request=adapter) == 0
    assert engine.recorder.flush()
    adapter_folder(tmp_path / "sql", b"new weights")
    core.refuses = True
    with pytest.raises(ValueError, match="no such adapter"):
        core.add_lora(adapter)
    assert engine.serve("refused reload", prompt, lora_request=adapter) == 64
    assert engine.recorder.flush()
    core.refuses = False
    core.add_lora(lora_request=adapter)
    assert engine.serve("after", prompt, lora_request=adapter) == 64
    stale = [finished.outcome.stale_hit_tokens for finished in engine.of_kind("request")]
    assert stale == [0, 0, 64]
    assert engine.switch.errors == {}
