"""Ties hitcurve to the events of a Locust test: options, start, reports of workers, end."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import WorkerRunner
from prometheus_client import CollectorRegistry

from hitcurve.errors import HitcurveError
from hitcurve.whole_file import write_whole
from hitcurve_loadtests.live_metrics import LiveMetrics
from hitcurve_loadtests.locust_mode.options import add_options, draw_seed
from hitcurve_loadtests.locust_mode.running_test import MAX_LAG_S, RunningTest
from hitcurve_loadtests.locust_mode.tab import add_tab
from hitcurve_loadtests.locust_report import with_section
from hitcurve_loadtests.summary import RunTotals

__all__ = ["listen"]

_NAP_S = 0.05
_log = logging.getLogger("hitcurve")


def listen(events: Any, default_users: tuple[type[Any], ...]) -> None:
    """Register everything. Where no user class and no tag is named, ``default_users`` are those that run."""
    listeners = _Listeners(default_users)
    events.init_command_line_parser.add_listener(add_options)
    events.init.add_listener(listeners.init)
    events.test_start.add_listener(listeners.test_start)
    events.test_stop.add_listener(listeners.test_stop)
    events.report_to_master.add_listener(listeners.report_to_master)
    events.worker_report.add_listener(listeners.worker_report)
    events.quit.add_listener(listeners.quit)


class _Listeners:
    def __init__(self, default_users: tuple[type[Any], ...]) -> None:
        self._default_users = default_users
        self._environment: Environment
        self._running: RunningTest | None = None

    def init(self, environment: Environment, **_: Any) -> None:
        self._environment = environment
        options = environment.parsed_options
        if options.tags or options.exclude_tags:
            # Locust would start users that have no task left.
            environment.user_classes = [
                kind for kind in environment.user_classes if _wanted(kind.tags, options.tags, options.exclude_tags)
            ]
        elif not (options.user_classes or options.class_picker):
            environment.user_classes = list(self._default_users)
        if environment.web_ui:
            registry = CollectorRegistry()
            LiveMetrics(self._totals, registry, load="locust", worker=0, max_lag_s=MAX_LAG_S)
            add_tab(environment, self._results, registry)
        gevent.spawn(self._watch_hub)

    def test_start(self, environment: Environment, **_: Any) -> None:
        options = environment.parsed_options
        if not options.seed:
            # Workers get it from the master, which starts first.
            options.seed = draw_seed()
        if not isinstance(environment.runner, WorkerRunner):
            _log.info("seed %d", options.seed)
        try:
            self._running = environment.hitcurve = RunningTest(environment)
            self._running.begin()
        except HitcurveError as error:
            _log.error("%s", error)
            environment.process_exit_code = error.exit_code
            # Once this event is over: a runner that is about to start would go on with it.
            gevent.spawn(environment.runner.quit)

    def test_stop(self, **_: Any) -> None:
        if self._running is not None:
            self._running.end()

    def report_to_master(self, data: dict[str, Any], **_: Any) -> None:
        if self._running is not None:
            data["hitcurve"] = self._running.take_report()

    def worker_report(self, data: dict[str, Any], **_: Any) -> None:
        if self._running is not None and "hitcurve" in data:
            self._running.add_report(data["hitcurve"])

    def quit(self, **_: Any) -> None:
        """Locust has written its report by now; ours goes behind it."""
        if self._running is None or isinstance(self._environment.runner, WorkerRunner):
            return
        options, results = self._environment.parsed_options, self._running.results()
        if options.html_file and Path(options.html_file).exists():
            page = Path(options.html_file)
            _replace(page, with_section(page.read_text(encoding="utf-8"), results))
        if options.results:
            _replace(Path(options.results), json.dumps(results, indent=1))

    def _results(self) -> dict[str, Any] | None:
        return None if self._running is None else self._running.results()

    def _watch_hub(self) -> None:
        while True:
            asleep_s = time.perf_counter()
            gevent.sleep(_NAP_S)
            running = self._running
            if running is not None:
                running.totals.hub_lagged(time.perf_counter() - asleep_s - _NAP_S)
                if running.all_answered and self._environment.web_ui is None:
                    self._environment.runner.quit()
                    return

    def _totals(self) -> RunTotals:
        return RunTotals() if self._running is None else self._running.totals


def _wanted(tags: set[str], only: list[str] | None, but: list[str] | None) -> bool:
    return bool(not only or tags & set(only)) and not tags & set(but or ())


def _replace(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        _log.error("%s cannot be written: %s", path, error.strerror)
