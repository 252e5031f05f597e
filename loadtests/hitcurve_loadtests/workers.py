"""One run spread over several processes: each sends its share with texts of its own, the parent adds up.

Results are added exactly: histograms count by count, Locust's statistics by Locust. Several machines take Locust's
master and worker mode (``loadtests/locustfile.py``).
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hitcurve.errors import EnvironmentFailed
from hitcurve_loadtests.plan import LoadOptions, plan_load
from hitcurve_loadtests.records import RequestLog

if TYPE_CHECKING:
    from hitcurve_loadtests.load_run import LoadRun

__all__ = ["WorkerProcesses", "work"]

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class _Worker:
    """A child process and the files it writes to; a pipe would hold up a child whose results are long."""

    number: int
    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]

    def results(self) -> dict[str, Any]:
        self.err.seek(0)
        words = self.err.read().decode(errors="replace").strip().splitlines()
        if self.process.returncode != 0:
            said = words[-1] if words else "it said nothing"
            raise EnvironmentFailed(
                f"worker {self.number} of the load ended with code {self.process.returncode}: {said.rstrip('.')}."
            )
        self.out.seek(0)
        results: dict[str, Any] = json.loads(self.out.read())
        return results


class WorkerProcesses:
    """Starts the workers, passes signals on, and merges what they measured into the parent's ``run``."""

    def __init__(self, options: LoadOptions, run: "LoadRun") -> None:
        self._options = options
        self._run = run
        self._workers: list[_Worker] = []

    def run(self) -> None:
        """Until the last worker has ended. EnvironmentFailed where one ends without results."""
        from hitcurve_loadtests.locust_report import merge_locust_stats

        try:
            for number in range(1, self._options.processes + 1):
                self._workers.append(_start(number, replace(self._options, worker=number)))
            self._wait()
            for worker in self._workers:
                results = worker.results()
                self._run.totals.merge(results["totals"])
                merge_locust_stats(self._run.environment, results["locust"])
                self._run.elapsed_s = max(self._run.elapsed_s, results["elapsed_s"])
        finally:
            self._pass_on(signal.SIGKILL)

    def _wait(self) -> None:
        stopped = False
        while any(worker.process.poll() is None for worker in self._workers):
            time.sleep(_POLL_S)
            if self._run.stopped_by is not None and not stopped:
                self._pass_on(signal.SIGTERM)
                stopped = True

    def _pass_on(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.process.poll() is None:
                worker.process.send_signal(number)
                if number == signal.SIGKILL:
                    worker.process.wait()


def _start(number: int, options: LoadOptions) -> _Worker:
    """Start one, in a session of its own: Ctrl-C reaches the parent alone, which lets the workers finish."""
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # They outlive this function.
    process = subprocess.Popen(
        [sys.executable, "-m", "hitcurve_loadtests.worker"],
        stdin=subprocess.PIPE,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(options), default=str).encode())
    process.stdin.close()
    return _Worker(number, process, out, err)


def work(words: str) -> str:
    """What a worker does with the options on its standard input, and what it answers."""
    from hitcurve_loadtests.execute import REQUESTS_FILE
    from hitcurve_loadtests.load_run import LoadRun, soon

    values = json.loads(words)
    for name in ("out", "trace", "planned"):
        values[name] = None if values[name] is None else Path(values[name])
    plan = plan_load(LoadOptions(**values))
    out = plan.settings.out
    log = RequestLog(out / REQUESTS_FILE, soon) if out else None
    run = LoadRun(plan, log.append if log else lambda record: None)
    run.prepare()
    parent = os.getppid()
    run.run(lambda: _leave_orphan(parent))
    results = {"totals": run.totals.as_json(), "elapsed_s": run.elapsed_s, "locust": run.locust_stats()}
    return json.dumps(results)


def _leave_orphan(parent: int) -> None:
    """A worker whose parent was killed stops sending."""
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
