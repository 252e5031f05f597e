"""Sends one request and measures its stream. Imports gevent's HTTP client: for the load process only."""

import time
from collections.abc import Callable

from gevent import Timeout
from geventhttpclient.response import HTTPParseError

from hitcurve_loadtests.post_connections import PostConnections
from hitcurve_loadtests.stream import StreamMeasurement, StreamMeter

__all__ = ["BROKEN", "explain", "stream_request"]

BROKEN = (OSError, HTTPParseError, Timeout)
"""What a connection that cannot be made or breaks raises."""


def stream_request(
    connections: PostConnections, body: bytes, *, clock: Callable[[], float] = time.perf_counter
) -> StreamMeasurement:
    """Post ``body`` and measure the answer while it arrives; a broken connection is a failed measurement.

    Each piece is measured as soon as it is there. Locust's own ``iter_lines`` waits until 1,024 bytes have come,
    which adds a hundred milliseconds to a measured TTFT (Locust 2.47).
    """
    started_s = clock()
    try:
        response = connections.post(body)
    except BROKEN as error:
        return StreamMeter(status=None, started_s=started_s).finish(clock(), reason=explain(error))
    meter = StreamMeter(status=response.status_code, started_s=started_s)
    try:
        while data := response.read_some():
            meter.feed(clock(), data)
    except BROKEN as error:
        return meter.finish(clock(), reason=None if meter.complete else f"stream was cut: {explain(error)}")
    finally:
        response.release()
    return meter.finish()


def explain(error: BaseException) -> str:
    """A broken connection in a few words."""
    if isinstance(error, (TimeoutError, Timeout)):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).rstrip(".") or type(error).__name__
