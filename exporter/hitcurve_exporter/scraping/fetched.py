"""What one GET of an engine's page brought, or why it brought nothing."""

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["FAILURE_REASONS", "FailureReason", "Fetched"]

FailureReason = Literal[
    "timeout",
    "connection_refused",
    "connection_failed",
    "name_not_resolved",
    "tls",
    "credentials",
    "http_status",
    "body_too_large",
    "not_metrics",
    "internal_error",
]
FAILURE_REASONS: tuple[FailureReason, ...] = get_args(FailureReason)
"""Every value of the label ``reason``."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """One GET. ``failure`` and ``body`` exclude each other; times in seconds."""

    at_s: float
    """Unix time when it was asked for."""
    monotonic_s: float
    duration_s: float
    status: int | None = None
    content_type: str = ""
    body: bytes | None = None
    failure: FailureReason | None = None
    detail: str = ""
    """The failure in words."""
