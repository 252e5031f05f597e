"""The ledger: what the prefix cache did for each request, and why tokens were missed."""

from hitcurve_engine.ledger.ledger import Ledger
from hitcurve_engine.ledger.records import ANOMALIES, MISS_REASONS, Eviction, MissReason, Outcome, Regret, Totals

__all__ = [
    "ANOMALIES",
    "MISS_REASONS",
    "Eviction",
    "Ledger",
    "MissReason",
    "OtherGroups",
    "Outcome",
    "Regret",
    "Totals",
]
