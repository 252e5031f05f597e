"""What a vLLM that a run starts needs to run with the engine patch, and to send its spans to this machine."""

import importlib.util
import os
from pathlib import Path

from hitcurve.errors import EnvironmentFailed
from hitcurve_chaos.demo.engines import free_port

__all__ = ["patched_variables", "spans_address"]

_PACKAGES = ("hitcurve", "hitcurve_engine")
_DISTRIBUTION = "hitcurve-0.dist-info"
_ENTRY_POINTS = "[vllm.general_plugins]\nhitcurve = hitcurve_engine.plugin:register\n"


def spans_address() -> str:
    """Where one engine sends its spans; nobody listens there until a scenario does."""
    return f"http://127.0.0.1:{free_port()}"


def patched_variables(folder: Path, collector: str) -> dict[str, str]:
    """Environment variables of a vLLM server with the patch; ``folder`` becomes its PYTHONPATH.

    The folder holds links to the two packages alone: on the path of their own environment vLLM would find all
    others of it too. Batches are sent soon and given up soon, so that a scenario of minutes sees them.
    EnvironmentFailed where the engine patch is not installed here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        if found is None or not found.submodule_search_locations:
            raise EnvironmentFailed(f"{name} is not installed here; pip install 'hitcurve[engine]'.")
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(Path(found.submodule_search_locations[0]).resolve())
    about = folder / _DISTRIBUTION
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hitcurve\nVersion: 0\n")
    (about / "entry_points.txt").write_text(_ENTRY_POINTS)
    path = [str(folder.resolve()), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "2",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
