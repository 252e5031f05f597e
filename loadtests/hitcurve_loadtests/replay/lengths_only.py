"""Azure's public LLM traces: times and lengths, nothing about what was said, so nothing is shared.

``TIMESTAMP,ContextTokens,GeneratedTokens`` (AzurePublicDataset, AzureLLMInferenceTrace_*.csv).
"""

import csv
import re
from collections.abc import Iterable
from datetime import datetime

from hitcurve.errors import UsageError
from hitcurve_loadtests.replay.rows import TraceRow

__all__ = ["COLUMNS", "length_rows"]

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def length_rows(lines: Iterable[str], where: str) -> list[TraceRow]:
    """The requests; UsageError where columns are missing or a value cannot be read."""
    reader = csv.DictReader(lines)
    if not set(COLUMNS) <= set(reader.fieldnames or ()):
        raise UsageError(f"{where}:1: not an Azure trace; its columns are {', '.join(COLUMNS)}.")
    rows = []
    for row in reader:
        try:
            # Seven digits of a second are one more than a datetime takes.
            moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", row["TIMESTAMP"].strip()))
            prompt, output = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        except ValueError as error:
            raise UsageError(f"{where}:{reader.line_num}: {error}; correct the line.") from error
        rows.append(TraceRow(moment.timestamp(), max(prompt, 1), max(output, 1)))
    return rows
