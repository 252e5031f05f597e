"""What the tests against a real vLLM share: its interpreter, in an environment of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hitcurve_chaos.demo.vllm_env import version_in


@pytest.fixture(scope="session")
def vllm_python(repository: Path) -> Iterator[Path]:
    """The Python that can import a real vLLM, 0.32 unless ``HITCURVE_VLLM_PYTHON`` names another one, or
    ``HITCURVE_VLLM_ENV`` its environment. Servers of the demo are started with it, too."""
    environment = os.environ.get("HITCURVE_VLLM_ENV", repository / ".venv-vllm")
    python = Path(os.environ.get("HITCURVE_VLLM_PYTHON", Path(environment, "bin", "python"))).absolute()
    if not python.exists():
        pytest.skip("no real vLLM: run make vllm-env")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HITCURVE_VLLM_ENV", str(python.parents[1]))
        yield python


@pytest.fixture(scope="session")
def vllm_version(vllm_python: Path) -> str:
    """The release of vLLM that ``vllm_python`` imports."""
    version = version_in(vllm_python.parents[1])
    assert version, "the environment of vLLM is not finished: run make vllm-env"
    return version
