"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with cases and public traces beside the checkout (``HITCURVE_SHARED`` names another)."""
    folder = Path(os.environ.get("HITCURVE_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no cases and traces at {folder}; set HITCURVE_SHARED to the folder that holds them")
    return folder
