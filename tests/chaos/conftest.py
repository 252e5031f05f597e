"""Fixtures of the chaos tests."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


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


@pytest.fixture
def world(scripted: ModuleType, tmp_path: Path) -> Any:
    """A world in which every scenario is ok."""
    return scripted.ScriptedWorld(tmp_path)
