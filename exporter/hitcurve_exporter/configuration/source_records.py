"""Where counters come from when they do not come from the engines themselves."""

from dataclasses import dataclass

__all__ = ["PrometheusSource"]


@dataclass(frozen=True, slots=True)
class PrometheusSource:
    """A server with Prometheus' query API: Prometheus itself, Thanos, Mimir."""

    url: str
    """Without ``/api/v1/query`` and without a trailing slash."""
    matchers: str = ""
    """More label matchers, such as ``job="vllm"``; empty for all series."""
    headers: tuple[tuple[str, str], ...] = ()
    authorization_file: str | None = None
    """A file whose first line is the value of the header ``Authorization``, read anew for every request."""
