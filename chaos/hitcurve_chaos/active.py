"""``hitcurve_chaos_active{scenario}``: which scenario runs right now, on a page that Prometheus can scrape."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hitcurve.catalogue import metric_named
from hitcurve.errors import UsageError
from hitcurve.listening import why_not_listening

__all__ = ["ACTIVE_METRIC", "ActiveScenario", "serve_active"]

ACTIVE_METRIC = "hitcurve_chaos_active"
_METRIC = metric_named(ACTIVE_METRIC)
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ActiveScenario:
    """1 for the scenario that runs, 0 for those that ran before it in this run."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, scenario: str) -> None:
        with self._lock:
            self._values[scenario] = 1

    def end(self, scenario: str) -> None:
        with self._lock:
            self._values[scenario] = 0

    def page(self) -> str:
        """The text exposition format."""
        with self._lock:
            rows = [f'{ACTIVE_METRIC}{{scenario="{name}"}} {value}\n' for name, value in self._values.items()]
        return f"# HELP {ACTIVE_METRIC} {_METRIC.help}\n# TYPE {ACTIVE_METRIC} {_METRIC.kind}\n" + "".join(rows)


@contextmanager
def serve_active(active: ActiveScenario, listen: str) -> Iterator[str]:
    """Serve the page at ``listen`` (``HOST:PORT``, port 0: a free one) and yield its URL."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"--metrics-listen {listen} is not HOST:PORT; write for example 127.0.0.1:9478.")
    try:
        server = ThreadingHTTPServer((host, int(port)), _handler_of(active))
    except OverflowError:
        raise UsageError(f"--metrics-listen {listen} has no port from 0 to 65535.") from None
    except OSError as error:
        why = why_not_listening(error)
        raise UsageError(
            f"--metrics-listen {listen} cannot be had ({why}); choose another address or port."
        ) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler_of(active: ActiveScenario) -> type[BaseHTTPRequestHandler]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = active.page().encode()
            self.send_response(200)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Quiet."""

    return Page
