"""A program that plays operations on an engine's own cache, in the engine's environment."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Driver", "DriverFailed"]


class DriverFailed(Exception):
    """The program ended; the text holds what it wrote last."""


class Driver:
    """Speaks the protocol of the programs in this folder: after ``ready``, a JSON line for a JSON line."""

    def __init__(self, python: Path, program: Path, python_path: Iterable[Path], **environment: str) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(map(str, python_path))},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def __enter__(self) -> "Driver":
        while (line := self._read()) != "ready\n":
            del line
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in.close()
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._errors.close()

    def answers(self, runs: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """Each run with its answer; the next run is made while the program works on one."""
        waiting: dict[str, Any] | None = None
        for run in runs:
            if waiting is not None:
                yield waiting, json.loads(self._read())
            self._in.write(json.dumps(run) + "\n")
            self._in.flush()
            waiting = run
        if waiting is not None:
            yield waiting, json.loads(self._read())

    def _read(self) -> str:
        line = self._out.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise DriverFailed(self._errors.read().decode()[-2500:])
        return line
