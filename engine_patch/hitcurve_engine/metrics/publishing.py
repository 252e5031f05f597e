"""Where the numbers of an engine go, from what its environment offers."""

import logging
from collections.abc import Mapping
from pathlib import Path

from hitcurve_engine.metrics.handoff import HANDOFF_VARIABLE, HandoffWriter
from hitcurve_engine.metrics.multiprocess import MultiprocessPublisher
from hitcurve_engine.metrics.own_port import OwnPort
from hitcurve_engine.metrics.tally import Tally
from hitcurve_engine.recording.sinks import EngineFacts
from hitcurve_engine.settings import Settings

__all__ = ["make_publishers"]

_log = logging.getLogger("hitcurve.engine")

AnyPublisher = MultiprocessPublisher | HandoffWriter | OwnPort


def make_publishers(
    tally: Tally, facts: EngineFacts, settings: Settings, environment: Mapping[str, str]
) -> list[AnyPublisher]:
    """Every publisher that there is a reader for. One that cannot start is left out with a warning."""
    publishers: list[AnyPublisher] = []
    try:
        if environment.get("PROMETHEUS_MULTIPROC_DIR"):
            publishers.append(MultiprocessPublisher())
        elif environment.get(HANDOFF_VARIABLE):
            publishers.append(HandoffWriter(Path(environment[HANDOFF_VARIABLE])))
    except (ImportError, OSError) as error:
        _log.warning("hitcurve: /metrics of the API server will not show the cache's metrics (%s)", error)
    if settings.metrics_port is not None:
        port = settings.metrics_port + (facts.engine_index or 0)
        try:
            publishers.append(OwnPort(tally, settings.metrics_host, port))
        except (ImportError, OSError) as error:
            _log.warning("hitcurve: no metrics at %s:%d (%s)", settings.metrics_host, port, error)
    return publishers
