"""In the API server's process: show on its ``/metrics`` what the engines hand over."""

import atexit
import logging
import multiprocessing
import os
import shutil
from collections.abc import MutableMapping
from pathlib import Path
from types import ModuleType

from hitcurve_engine.metrics.families import SnapshotCollector
from hitcurve_engine.metrics.handoff import HANDOFF_VARIABLE, new_handoff_folder, read_handoff
from hitcurve_engine.probes.import_watch import ImportWatch

__all__ = ["prepare_front_end"]

_log = logging.getLogger("hitcurve.engine")
_chosen: Path | None = None


def prepare_front_end(environment: MutableMapping[str, str]) -> None:
    """Choose the hand-over folder for all processes that this one starts, and show it on the default registry.

    Called in every process of vLLM; makes no file and imports nothing. Processes that vLLM starts by
    multiprocessing keep the folder of the one that started them; a server that somebody starts from within
    another server's process gets a folder of its own. With several API servers vLLM shares
    ``PROMETHEUS_MULTIPROC_DIR`` with its engines, and no hand-over is needed. Never raises.
    """
    global _chosen
    if _chosen is not None:
        return
    try:
        inherited = environment.get(HANDOFF_VARIABLE) if multiprocessing.parent_process() is not None else None
        if inherited is None:
            _chosen = new_handoff_folder()
            environment[HANDOFF_VARIABLE] = str(_chosen)
            atexit.register(_remove, _chosen, os.getpid())
        else:
            _chosen = Path(inherited)
        folder = _chosen
        ImportWatch(("prometheus_client",), lambda _, module: _register(module, folder)).start()
    except Exception as error:
        _warn(error)


def _register(prometheus_client: ModuleType, folder: Path) -> None:
    # Called from inside somebody's import statement, which an error would break.
    try:
        prometheus_client.REGISTRY.register(SnapshotCollector(lambda: read_handoff(folder)))
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    _log.warning("hitcurve: /metrics will not show the cache's metrics (%s: %s)", type(error).__name__, error)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
