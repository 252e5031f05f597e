"""A page of the engine's own, for engines whose API server's page cannot be reached or shows nothing of ours."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from hitcurve_engine.metrics.families import SnapshotCollector
from hitcurve_engine.metrics.tally import Snapshot, Tally

__all__ = ["OwnPort"]


class OwnPort:
    """Serves ``/metrics`` of one engine, live. Raises OSError where the address cannot be had."""

    def __init__(self, tally: Tally, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        registry = CollectorRegistry()
        registry.register(SnapshotCollector(lambda: [tally.snapshot()]))

        class Page(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404)
                    return
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                body = encode(registry)
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((host, port), Page)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, name="hitcurve-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def publish(self, snapshot: Snapshot) -> None:
        """Nothing to do: the page reads the numbers when it is asked for."""

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
