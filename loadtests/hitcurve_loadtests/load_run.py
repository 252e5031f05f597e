"""A load run: Locust's runner and statistics around our own sending and measuring.

Importing this module imports Locust, which replaces parts of the standard library by gevent's. Only the process
that runs the load imports it.
"""

import gc
import logging
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
import gevent.event
import gevent.pool
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.stats import stats_history

from hitcurve_loadtests.engine_probe import models_to_load, texts_for
from hitcurve_loadtests.metrics_server import serving_metrics
from hitcurve_loadtests.plan import LoadPlan
from hitcurve_loadtests.prompts import Prompt
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.sender import RequestSender, destination
from hitcurve_loadtests.summary import RunTotals
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.traffic import Traffic

__all__ = ["LoadRun", "soon"]

_NAP_S = 0.05
_COLLECT_EVERY = 10_000
"""New objects after which the youngest are collected; parsed events come and go without cycles."""
_SIGNAL_DRAIN_S = 2.0


def soon(call: Callable[[], None]) -> None:
    """Call it once the event loop has handed out all that had arrived."""
    gevent.get_hub().loop.run_callback(call)


class LoadRun:
    """Sends requests until the duration, the number of requests, the traffic or a signal ends it.

    An open loop sends at ``plan.due_times``, a closed one keeps ``users`` requests in flight. ``finished`` is
    called with every record.
    """

    def __init__(self, plan: LoadPlan, finished: Callable[[RequestRecord], None]) -> None:
        settings = plan.settings
        self._plan = plan
        self._settings = settings
        self._finished = finished
        self._users = 1 if plan.due_times is not None else settings.users or 1
        connections = max(settings.max_in_flight, self._users)
        self._places = [
            destination(host, connections=connections, timeout_s=settings.timeout_s) for host in settings.hosts
        ]
        self._stopping = gevent.event.Event()
        self._drain_s = settings.drain_s
        self._flying = gevent.pool.Pool(settings.max_in_flight)
        self._thoughts = random.Random(f"think {settings.seed} {settings.worker}")
        self._environment = Environment(user_classes=[_user_class(self._drive)], host=settings.host)
        self._traffic: Traffic
        self._sender: RequestSender
        self.texts: Texts
        """What the prompts are made of, known once ``prepare`` has been called."""
        self.tokens_of = "bytes"
        """Whose tokens the sizes are."""
        self.models: tuple[str, ...] = ()
        """The models that are asked, known once ``prepare`` has been called."""
        self.totals = RunTotals(warm_up=settings.warm_up)
        self.elapsed_s = 0.0
        self._failure: BaseException | None = None
        self.stopped_by: signal.Signals | None = None

    @property
    def environment(self) -> Environment:
        """Locust's side of the run, for its report."""
        return self._environment

    def prepare(self) -> None:
        """Meet the engine and get the traffic ready; EnvironmentFailed where the engine does not answer."""
        logging.getLogger("locust").setLevel(logging.ERROR)
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self._stop_by_signal, number)
        settings = self._settings
        self.models = models_to_load(self._places, settings)
        maker, self.tokens_of = texts_for(self._places[0], self.models[0], settings)
        self.texts = Texts(settings.seed, settings.worker, maker)
        self._traffic = self._plan.make_traffic(self.texts)
        exact = settings.api == "completions" and not self._plan.recorded_text
        self._sender = RequestSender(
            settings,
            self._places,
            self.models,
            self._traffic,
            maker.count if exact else None,
            self.totals,
            self._environment,
            self._finished,
        )

    def run(self, every_second: Callable[[], None]) -> None:
        """Run to the end.

        SIGINT and SIGTERM end the run early: nothing more is sent, and what is in flight gets two seconds.
        """
        runner = self._environment.create_local_runner()
        helpers = [
            gevent.spawn(stats_history, runner),
            gevent.spawn(self._watch_hub),
            gevent.spawn(_repeat, every_second),
        ]
        # What exists now stays; walking it in every collection would block the hub for tens of milliseconds.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_EVERY)
        with serving_metrics(self._settings, self.totals) as address:
            if address is not None and not self._settings.worker:
                print(f"metrics at {address}", file=sys.stderr, flush=True)
            started_s = time.perf_counter()
            runner.start(self._users, spawn_rate=self._users)
            runner.spawning_greenlet.join()
            self._wait(lambda: runner.user_count + len(self._flying), started_s)
            self.elapsed_s = time.perf_counter() - started_s
        self._flying.kill()
        runner.quit()
        gevent.killall(helpers)
        if self._failure is not None:
            raise self._failure

    def locust_stats(self) -> dict[str, Any]:
        """Locust's statistics in plain values, for the process that adds up its workers."""
        stats = self._environment.stats
        return {
            "entries": stats.serialize_stats(),
            "total": stats.total.get_stripped_report(),
            "errors": stats.serialize_errors(),
        }

    def _wait(self, busy: Callable[[], int], started_s: float) -> None:
        """Return when all is sent and answered, at the latest ``drain_s`` after sending ended."""
        ended_s: float | None = None
        duration_s = self._settings.duration_s
        while busy():
            gevent.sleep(_NAP_S)
            now_s = time.perf_counter()
            if duration_s is not None and now_s - started_s >= duration_s:
                self._stopping.set()
            if self._stopping.is_set():
                ended_s = now_s if ended_s is None else ended_s
                if now_s - ended_s >= self._drain_s:
                    return

    def _stop_by_signal(self, number: signal.Signals) -> None:
        self._drain_s = 0.0 if self.stopped_by else _SIGNAL_DRAIN_S
        self.stopped_by = self.stopped_by or number
        self._stopping.set()

    def _drive(self) -> None:
        """What one Locust user does."""
        try:
            if self._plan.due_times is None:
                self._keep_one_in_flight()
            else:
                self._send_when_due(self._plan.due_times)
        except Exception as error:
            self._failure = error
            self._stopping.set()

    def _keep_one_in_flight(self) -> None:
        think_s = self._settings.think_time_s
        while self._may_send() and (prompt := self._traffic.next()) is not None:
            self.totals.sent += 1
            self._sender.send(prompt, self.totals.sent, None)
            if think_s:
                self._stopping.wait(self._thoughts.expovariate(1 / think_s))

    def _send_when_due(self, due_times: Iterator[float]) -> None:
        started_s = time.perf_counter()
        for due_s in due_times:
            if self._settings.duration_s is not None and due_s >= self._settings.duration_s:
                break
            self._stopping.wait(max(started_s + due_s - time.perf_counter(), 0.0))
            if not self._may_send() or (prompt := self._next_when_flying()) is None:
                break
            self.totals.sent += 1
            self._flying.spawn(self._send, prompt, self.totals.sent, started_s + due_s)
        self._stopping.set()

    def _next_when_flying(self) -> Prompt | None:
        """The next prompt; where all chats wait for a reply, as soon as one has it."""
        while (prompt := self._traffic.next()) is None and len(self._flying):
            gevent.sleep(_NAP_S / 10)
        return prompt

    def _send(self, prompt: Prompt, number: int, due_s: float) -> None:
        try:
            self._sender.send(prompt, number, due_s)
        except Exception as error:
            # An error that left it would be printed by gevent, with its traceback.
            self._failure = error
            self._stopping.set()

    def _may_send(self) -> bool:
        limit = self._settings.requests
        if limit is not None and self.totals.sent >= limit:
            self._stopping.set()
        return not self._stopping.is_set()

    def _watch_hub(self) -> None:
        """Measure how much later than asked this process's own event loop gets round to things."""
        while True:
            asleep_s = time.perf_counter()
            gevent.sleep(_NAP_S)
            self.totals.hub_lagged(time.perf_counter() - asleep_s - _NAP_S)


def _user_class(drive: Callable[[], None]) -> type[User]:
    class LoadUser(User):  # type: ignore[misc]  # Locust is not typed.
        @task  # type: ignore[untyped-decorator]
        def send(self) -> None:
            drive()
            raise StopUser

    return LoadUser


def _repeat(every_second: Callable[[], None]) -> None:
    while True:
        gevent.sleep(1.0)
        every_second()
