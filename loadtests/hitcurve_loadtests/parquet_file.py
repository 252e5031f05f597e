"""The finished requests of one load as a Parquet file, for those who analyse them with other tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve.whole_file import whole_file
from hitcurve_loadtests.request_lines import NoRequest, read_request_line

__all__ = ["COLUMNS", "write_parquet"]

COLUMNS: dict[str, str] = {
    "at_s": "double",
    "load": "string",
    "profile": "string",
    "group": "string",
    "model": "string",
    "status": "int16",
    "outcome": "string",
    "reason": "string",
    "ttft_s": "double",
    "tpot_s": "double",
    "duration_s": "double",
    "prompt_tokens": "int32",
    "completion_tokens": "int32",
    "cached_tokens": "int32",
    "late_s": "double",
    "first_content_s": "double",
    "number": "int32",
    "worker": "int16",
    "queue_s": "double",
}
"""Columns and their Arrow types; all but the first four may be null, which is "no value"."""

_ROWS_AT_ONCE = 10_000


def write_parquet(requests: Path, name: str) -> Path:
    """``requests-NAME.parquet`` beside ``requests``, with the lines of the load ``name``."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UsageError(
            "--parquet needs the package 'pyarrow'; install it with: pip install 'hitcurve[parquet]'"
        ) from error
    schema = pyarrow.schema([(column, pyarrow.type_for_alias(kind)) for column, kind in COLUMNS.items()])
    path = requests.with_name(f"requests-{name}.parquet")
    try:
        with whole_file(path) as draft, pyarrow.parquet.ParquetWriter(draft, schema) as writer:
            for rows in _batches(requests, name):
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    except OSError as error:
        raise EnvironmentFailed(f"{path} cannot be written: {error.strerror}; choose another --out.") from error
    return path


def _batches(requests: Path, name: str) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    if requests.exists():
        with requests.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = read_request_line(line, f"{requests}:{number}")
                except NoRequest as error:
                    raise EnvironmentFailed(str(error)) from error
                if row["load"] == name:
                    rows.append(row)
                if len(rows) >= _ROWS_AT_ONCE:
                    yield rows
                    rows = []
    yield rows
