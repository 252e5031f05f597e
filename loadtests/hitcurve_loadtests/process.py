"""A load in a process of its own, for programs that need traffic while they do something else."""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hitcurve.child import ChildProcess
from hitcurve.errors import EnvironmentFailed
from hitcurve_loadtests.request_lines import NoRequest, read_request_line

__all__ = ["LoadProcess"]

_POLL_S = 0.05


class LoadProcess:
    """``hitcurve load`` as a child process; leaving the ``with`` block stops it.

    ``arguments`` are the words after ``hitcurve load`` without ``--out`` and ``--name``. Its requests are appended
    to ``out/requests.jsonl``, its summary is ``out/load-NAME.json``, its output ``out/logs/load-NAME.log``.
    """

    def __init__(self, arguments: Sequence[str], *, out: Path, name: str) -> None:
        self.name = name
        self.requests_path = out / "requests.jsonl"
        self.summary_path = out / f"load-{name}.json"
        self._offset = self.requests_path.stat().st_size if self.requests_path.exists() else 0
        self._last_failure: str | None = None
        command = [sys.executable, "-m", "hitcurve", "load", *arguments, "--out", str(out), "--name", name]
        self._child = ChildProcess(f"load '{name}'", command, out / "logs" / f"load-{name}.log")

    def start(self) -> Self:
        """Start it; EnvironmentFailed where the program cannot be executed."""
        self.summary_path.unlink(missing_ok=True)
        self._child.start()
        return self

    @property
    def process_id(self) -> int | None:
        """Id of the process, ``None`` before ``start``."""
        return self._child.process_id

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def returncode(self) -> int | None:
        """Exit code of ``hitcurve load``, ``None`` while it runs."""
        return self._child.returncode

    def wait_first_success(self, timeout_s: float = 60.0) -> None:
        """Wait until a request of this load has succeeded.

        EnvironmentFailed, with the last words of the load, where it ends or ``timeout_s`` passes before.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._succeeded():
            if not self.running and not self._succeeded():
                raise EnvironmentFailed(
                    f"load '{self.name}' ended with code {self.returncode}: {self._last_words()}"
                )
            if time.monotonic() > deadline_s:
                why = f" (the last one failed: {self._last_failure})" if self._last_failure else ""
                raise EnvironmentFailed(
                    f"load '{self.name}' had no successful request within {timeout_s:g} s{why}; "
                    f"see {self._child.log}."
                )
            time.sleep(_POLL_S)

    def stop(self, grace_s: float = 15.0) -> dict[str, Any]:
        """End it by SIGTERM if it still runs, and return its summary (docs/loadtests.md)."""
        self._child.stop(grace_s)
        return self.summary()

    def wait(self, timeout_s: float) -> dict[str, Any]:
        """Wait until it ends by itself, and return its summary."""
        self._child.wait_end(timeout_s)
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """What it wrote when it ended; EnvironmentFailed where it ended before it could."""
        try:
            summary: dict[str, Any] = json.loads(self.summary_path.read_text())
        except FileNotFoundError:
            raise EnvironmentFailed(
                f"load '{self.name}' ended with code {self.returncode} and left no summary: {self._last_words()}"
            ) from None
        return summary

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop()

    def _succeeded(self) -> bool:
        found = False
        for record in self._new_records():
            found = found or record["outcome"] == "ok"
            self._last_failure = record["reason"] or self._last_failure
        return found

    def _new_records(self) -> list[dict[str, Any]]:
        """Complete lines of this load since the last look; a line that is still being written waits."""
        if not self.requests_path.exists():
            return []
        with self.requests_path.open("rb") as file:
            file.seek(self._offset)
            complete, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        records = []
        for line in complete.splitlines():
            # What another load left of a line; one that cannot write its own ends and says so.
            with suppress(NoRequest):
                records.append(read_request_line(line, str(self.requests_path)))
        return [record for record in records if record["load"] == self.name]

    def _last_words(self) -> str:
        try:
            lines = self._child.log.read_text(errors="replace").split("\n")
        except FileNotFoundError:
            return "it printed nothing."
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing.")
