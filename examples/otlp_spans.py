"""What did the prefix cache do for each request? A collector of one file takes the patch's spans, and tells.

python examples/otlp_spans.py 4318
OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf \\
    vllm serve MODEL --otlp-traces-endpoint http://127.0.0.1:4318/v1/traces      # with the engine patch

Needs opentelemetry-proto, which vLLM ships, and pip install 'hitcurve[dev]' brings. All attributes are in
docs/engine_spans.md; a real collector stores the same spans in Tempo or Jaeger.
"""

import contextlib
import gzip
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

MISS = "hitcurve.miss_tokens."


def attributes(span: Any) -> dict[str, Any]:
    """Text and numbers of a span; what is not known has no attribute, which is never the same as 0."""
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in span.attributes}


def sentence(span: Any) -> str:
    """One request: its trace, how much of it was found, and why the rest was not."""
    known = attributes(span)
    trace, queries = span.trace_id.hex()[:8], known.get("hitcurve.query_tokens")
    if not queries:
        return f"{trace}  {known.get('hitcurve.status', 'unknown')}: looked up nothing"
    reasons = {name.removeprefix(MISS): tokens for name, tokens in known.items() if name.startswith(MISS)}
    missed = ", ".join(f"{reason} {tokens}" for reason, tokens in reasons.items() if tokens)
    share = known["hitcurve.hit_tokens"] / queries
    whose = f" for {known['hitcurve.adapter']}" if known.get("hitcurve.adapter") else ""
    waited = f", waited {known['hitcurve.wait_seconds']:.3f} s" if "hitcurve.wait_seconds" in known else ""
    return f"{trace}  {share:6.1%} of {queries} tokens{whose}; missed: {missed or 'nothing'}{waited}"


class Collector(BaseHTTPRequestHandler):
    """Answers POST /v1/traces as OTLP over HTTP wants it."""

    def do_POST(self) -> None:
        """Take a batch."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if span.name == "prefix_cache.request":
                        print(sentence(span), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of the request itself."""


def main(arguments: list[str]) -> None:
    """Listen on this machine only, until Ctrl-C; port 0 takes a free one."""
    with HTTPServer(("127.0.0.1", int(arguments[0])), Collector) as server, contextlib.suppress(KeyboardInterrupt):
        print(f"listening on http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
