"""Recorded traffic: JSONL traces in the formats of Mooncake and Bailian, or with tokens or text of their own."""

from hitcurve_simulator.traces.reader import read_trace
from hitcurve_simulator.traces.row import LineFinding, Trace, TraceRow

__all__ = ["LineFinding", "Trace", "TraceRow", "read_trace"]
