"""What the tests against a real vLLM share: its interpreter, in an environment of its own."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vllm_python(repository: Path) -> Path:
    """The Python that can import a real vLLM (``HITCURVE_VLLM_PYTHON`` names another one)."""
    python = Path(os.environ.get("HITCURVE_VLLM_PYTHON", repository / ".venv-vllm" / "bin" / "python"))
    if not python.exists():
        pytest.skip("no real vLLM: run make vllm-env")
    return python
