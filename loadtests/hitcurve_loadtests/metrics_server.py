"""Serves a run's metrics from within its own event loop. For load processes only (gevent)."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from gevent.pywsgi import WSGIServer
from prometheus_client import CollectorRegistry, make_wsgi_app

from hitcurve.errors import EnvironmentFailed
from hitcurve.listening import why_not_listening
from hitcurve_loadtests.live_metrics import LiveMetrics
from hitcurve_loadtests.settings import LoadSettings
from hitcurve_loadtests.summary import RunTotals

__all__ = ["serving_metrics"]


@contextmanager
def serving_metrics(settings: LoadSettings, totals: RunTotals) -> Iterator[str | None]:
    """Serve ``/metrics`` meanwhile and give its URL; ``None`` where no port was asked for.

    EnvironmentFailed where the address cannot be had.
    """
    if settings.metrics_port is None:
        yield None
        return
    registry = CollectorRegistry()
    LiveMetrics(
        lambda: totals,
        registry,
        load=settings.name,
        worker=settings.worker,
        max_lag_s=settings.max_lag_s,
    )
    host, port = settings.metrics_address, settings.metrics_port
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise EnvironmentFailed(
            f"metrics cannot be served at {host}:{port} ({why_not_listening(error)}); choose another port or "
            "address."
        ) from error
    server = WSGIServer(listener, make_wsgi_app(registry), log=None)
    server.start()
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.stop(timeout=0)
        listener.close()
