"""The sink behind ``HITCURVE_OUTCOME_FILE``: one JSON line per record, for looking closely and for tests.

Lines are ``{"kind": "engine" | "request" | "evicted" | "regret" | "reset" | "totals", …}`` with the fields of the
records. ``engine`` comes first; ``totals`` are the sums so far, about once a second while they change.
"""

import dataclasses
import json
import os
from typing import Any, TextIO

from hitcurve_engine.ledger import Regret, Totals
from hitcurve_engine.recording.sinks import CacheReset, EngineFacts, EvictionBatch, FinishedRequest, PatchStatus
from hitcurve_engine.settings import read_settings

__all__ = ["OutcomeFile", "create"]


def create(facts: EngineFacts) -> "OutcomeFile | None":
    """The sink, where the setting names a file."""
    path = read_settings(os.environ).outcome_file
    if path is None:
        return None
    return OutcomeFile(open(path.replace("{pid}", str(facts.pid)), "a", encoding="utf-8"), facts)


class OutcomeFile:
    """Writes each record to ``stream`` as it comes."""

    def __init__(self, stream: TextIO, facts: EngineFacts) -> None:
        self._stream = stream
        self._sums: dict[str, Any] = {}
        self._write("engine", dataclasses.asdict(facts))

    def request_finished(self, finished: FinishedRequest) -> None:
        """See ``Sink``."""
        context = dataclasses.asdict(finished.context)
        self._write("request", {**_plain(finished.outcome), "context": context})

    def evicted(self, batch: EvictionBatch) -> None:
        """See ``Sink``."""
        evictions = [eviction._asdict() for eviction in batch.evictions]
        self._write("evicted", {**batch._asdict(), "evictions": evictions})

    def regretted(self, regret: Regret) -> None:
        """See ``Sink``."""
        self._write("regret", dataclasses.asdict(regret))

    def cache_reset(self, reset: CacheReset) -> None:
        """See ``Sink``."""
        self._write("reset", reset._asdict())

    def tick(self, status: PatchStatus, totals: Totals) -> None:
        """Write the sums where they changed, and send off what is buffered."""
        sums = dataclasses.asdict(totals)
        if sums != self._sums:
            self._sums = sums
            self._write("totals", {"totals": sums, "status": dataclasses.asdict(status)})
        self._stream.flush()

    def close(self, deadline_s: float) -> None:
        """Close the file."""
        self._stream.close()

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        self._stream.write(json.dumps({"kind": kind, **fields}) + "\n")


def _plain(outcome: Any) -> dict[str, Any]:
    fields = {field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)}
    return {name: dict(value) if hasattr(value, "items") else value for name, value in fields.items()}
