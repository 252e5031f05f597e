"""Which sinks an engine gets: found where and when its replay starts, hence after any fork."""

import importlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from hitcurve_engine.recording.sinks import EngineFacts, Sink

__all__ = ["SINK_FACTORIES", "make_sinks"]

SINK_FACTORIES: tuple[str, ...] = (
    "hitcurve_engine.spans.sink:create",
    "hitcurve_engine.metrics.sink:create",
    "hitcurve_engine.recording.outcome_file:create",
)
"""``module:function`` of each ``SinkFactory``. A package that is not installed is passed over."""


def make_sinks(
    facts: EngineFacts, on_error: Callable[[str, Exception], None], names: Sequence[str] = SINK_FACTORIES
) -> list[Sink]:
    """Make every sink that is there and wanted; a factory that fails is reported and passed over."""
    sinks: list[Sink] = []
    for name in names:
        module, _, function = name.partition(":")
        try:
            if not _exists(module):
                continue
            sink = getattr(importlib.import_module(module), function)(facts)
        except Exception as error:
            on_error(name, error)
            continue
        if sink is not None:
            sinks.append(sink)
    return sinks


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
