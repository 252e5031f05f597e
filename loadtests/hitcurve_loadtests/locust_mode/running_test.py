"""What one process holds while a Locust test runs: connections, traffic of each profile, totals."""

import time
from dataclasses import asdict
from typing import Any

from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from hitcurve_loadtests.both_ends import BothEnds
from hitcurve_loadtests.engine_probe import models_to_load, texts_for
from hitcurve_loadtests.locust_mode.options import settings_of
from hitcurve_loadtests.profiles.catalogue import find_profile
from hitcurve_loadtests.prompts import Prompt
from hitcurve_loadtests.sender import RequestSender, destination
from hitcurve_loadtests.summary import RunTotals, judge
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.traffic import Traffic

__all__ = ["MAX_LAG_S", "RunningTest"]

_CONNECTIONS = 10_000
MAX_LAG_S = 0.1


class RunningTest:
    """Made when a test starts. On a master it only reads both ends and adds up what the workers report."""

    def __init__(self, environment: Environment) -> None:
        options, runner = environment.parsed_options, environment.runner
        self._environment = environment
        self._host = environment.host or next(
            (kind.host for kind in environment.user_classes if getattr(kind, "host", None)), ""
        )
        self._worker = runner.worker_index + 1 if isinstance(runner, WorkerRunner) else 0
        self._traffic: dict[str, tuple[Traffic, RequestSender]] = {}
        self._started_s = time.perf_counter()
        self._ended_s: float | None = None
        self._place = destination(self._host, connections=_CONNECTIONS, timeout_s=120.0)
        self._ends = None if isinstance(runner, WorkerRunner) else BothEnds([self._host], None)
        self._begun = False
        self._sent = 0
        self.totals = RunTotals(warm_up=options.warm_up)

    def begin(self) -> None:
        """Meet the engine; raises HitcurveError where that fails."""
        if self._ends is not None:
            self._ends.begin()
            self._begun = True
        if not isinstance(self._environment.runner, MasterRunner):
            for kind in self._environment.user_classes:
                self.traffic_of(kind.profile)

    def next_prompt(self, profile: str) -> Prompt | None:
        """What a user of this profile sends now; ``None`` where it has to wait for replies to others."""
        return self.traffic_of(profile)[0].next()

    @property
    def all_sent(self) -> bool:
        """Whether this process has sent as many requests as it may."""
        limit: int = self._environment.parsed_options.requests
        return 0 < limit <= self._sent

    @property
    def all_answered(self) -> bool:
        """Whether as many requests as all processes may send have ended; known to the process that adds up."""
        runner, limit = self._environment.runner, int(self._environment.parsed_options.requests)
        if not limit or isinstance(runner, WorkerRunner):
            return False
        processes = runner.worker_count if isinstance(runner, MasterRunner) else 1
        return self.totals.finished >= limit * max(int(processes), 1)

    def send(self, profile: str, prompt: Prompt) -> None:
        """Send it and measure the answer."""
        self._sent += 1
        self.totals.sent += 1
        self.traffic_of(profile)[1].send(prompt, self._sent, None)

    def end(self) -> None:
        """The last request was answered: read the engine's counters again."""
        if self._ends is not None:
            self._ends.end()
        self._ended_s = time.perf_counter()

    def take_report(self) -> dict[str, Any]:
        """What was measured since the last call, for the master; the totals begin anew."""
        report = self.totals.as_json()
        self.totals = RunTotals(warm_up=max(self.totals.warm_up - self.totals.finished, 0))
        for _, sender in self._traffic.values():
            sender.totals = self.totals
        return report

    def add_report(self, report: dict[str, Any]) -> None:
        """What a worker measured since its last report."""
        self.totals.merge(report)

    def results(self) -> dict[str, Any]:
        """The results so far, in the shape of a load's summary as far as they go (docs/loadtests.md)."""
        elapsed_s = (self._ended_s or time.perf_counter()) - self._started_s
        results = self.totals.results(elapsed_s)
        verdict, reasons = judge(results, MAX_LAG_S)
        whole = self._begun and self._ended_s is not None
        options = self._environment.parsed_options
        return {
            "name": "locust",
            "seed": options.seed,
            "verdict": verdict,
            "reasons": reasons,
            "hosts": [self._host],
            "elapsed_s": elapsed_s,
            **results,
            "engine": asdict(self._ends.together()) if whole and self._ends else None,
            "both_ends": self._ends.table(self.totals.as_json()) if whole and self._ends else None,
        }

    def traffic_of(self, profile: str) -> tuple[Traffic, RequestSender]:
        """One profile's traffic, shared by all its users in this process."""
        if profile not in self._traffic:
            spec = find_profile(profile)
            settings = settings_of(self._environment.parsed_options, spec, self._host, self._worker)
            models = models_to_load([self._place], settings)
            maker, _ = texts_for(self._place, models[0], settings)
            traffic = spec.make(Texts(settings.seed, settings.worker, maker))
            sender = RequestSender(
                settings, [self._place], models, traffic, None, self.totals, self._environment, lambda record: None
            )
            self._traffic[profile] = traffic, sender
        return self._traffic[profile]
