"""A load run: Locust's runner and statistics around our own sending and measuring.

Importing this module imports Locust, which replaces parts of the standard library by gevent's. Only the process
that runs the load imports it.
"""

import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import gevent
import gevent.event
import gevent.pool
from geventhttpclient import HTTPClient
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from locust.html import get_html_report
from locust.stats import stats_history

from hitcurve_loadtests.engine_counters import EngineLookups, engine_lookups, read_engine
from hitcurve_loadtests.engine_probe import models_to_load
from hitcurve_loadtests.openai_api import PATHS, request_body, request_headers
from hitcurve_loadtests.profiles.profile import Profile
from hitcurve_loadtests.prompts import Prompt
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.settings import LoadSettings
from hitcurve_loadtests.stream import StreamMeasurement
from hitcurve_loadtests.summary import RunTotals, is_hit
from hitcurve_loadtests.transport import stream_request

__all__ = ["LoadRun"]

_NAP_S = 0.05
_SIGNAL_DRAIN_S = 2.0
_CONNECT_TIMEOUT_S = 10.0
_MS_PER_S = 1000.0


class LoadRun:
    """Sends requests until the duration, the number of requests, the trace or a signal ends it.

    ``due_times`` are the seconds after the start at which requests are sent (open loop); ``None`` keeps
    ``settings.users`` requests in flight instead (closed loop). ``finished`` is called with every record.
    """

    def __init__(
        self,
        settings: LoadSettings,
        profile: Profile,
        due_times: Iterator[float] | None,
        finished: Callable[[RequestRecord], None],
    ) -> None:
        self._settings = settings
        self._profile = profile
        self._due_times = due_times
        self._finished = finished
        self._users = 1 if due_times is not None else settings.users or 1
        self._origin, self._base_path = _address(settings.host)
        self._client = HTTPClient.from_url(
            self._origin,
            concurrency=max(settings.max_in_flight, self._users),
            connection_timeout=_CONNECT_TIMEOUT_S,
            network_timeout=settings.timeout_s,
        )
        self._headers = request_headers(settings)
        self._path = self._base_path + PATHS[settings.api]
        self._stopping = gevent.event.Event()
        self._drain_s = settings.drain_s
        self._flying = gevent.pool.Pool(settings.max_in_flight)
        self._environment = Environment(user_classes=[_user_class(self._drive)], host=settings.host)
        self.models: tuple[str, ...] = ()
        """The models that are asked, known once ``run`` has begun."""
        self.totals = RunTotals()
        self.elapsed_s = 0.0
        self.engine_lookups: EngineLookups | None = None
        """What the engine's own counters say of the run, known once ``run`` has ended."""
        self._failure: BaseException | None = None
        self.stopped_by: signal.Signals | None = None

    def run(self, every_second: Callable[[], None]) -> None:
        """Run to the end; EnvironmentFailed where the engine does not answer at the start.

        SIGINT and SIGTERM end the run early: nothing more is sent, and what is in flight gets two seconds.
        """
        logging.getLogger("locust").setLevel(logging.ERROR)
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self._stop_by_signal, number)
        self.models = models_to_load(self._client, self._base_path, self._settings)
        metrics_url = f"{self._origin}{self._base_path}/metrics"
        before = read_engine(metrics_url)
        runner = self._environment.create_local_runner()
        helpers = [
            gevent.spawn(stats_history, runner),
            gevent.spawn(self._watch_hub),
            gevent.spawn(_repeat, every_second),
        ]
        # What exists now stays; walking it in every collection would block the hub for tens of milliseconds.
        gc.collect()
        gc.freeze()
        started_s = time.perf_counter()
        runner.start(self._users, spawn_rate=self._users)
        runner.spawning_greenlet.join()
        self._wait(lambda: runner.user_count + len(self._flying), started_s)
        self.elapsed_s = time.perf_counter() - started_s
        self._flying.kill()
        runner.quit()
        gevent.killall(helpers)
        self.engine_lookups = engine_lookups(before, read_engine(metrics_url))
        if self._failure is not None:
            raise self._failure

    def html_report(self) -> str:
        """Locust's own report. Its percentiles are rounded to two digits; the summary's are exact."""
        return str(get_html_report(self._environment, show_download_link=False))

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
            if self._due_times is None:
                self._keep_one_in_flight()
            else:
                self._send_when_due(self._due_times)
        except Exception as error:
            self._failure = error
        self._stopping.set()

    def _keep_one_in_flight(self) -> None:
        while self._may_send() and (prompt := self._profile.next()) is not None:
            self.totals.sent += 1
            self._send(prompt, self.totals.sent, None)

    def _send_when_due(self, due_times: Iterator[float]) -> None:
        started_s = time.perf_counter()
        for due_s in due_times:
            if self._settings.duration_s is not None and due_s >= self._settings.duration_s:
                return
            self._stopping.wait(max(started_s + due_s - time.perf_counter(), 0.0))
            if not self._may_send() or (prompt := self._profile.next()) is None:
                return
            self.totals.sent += 1
            sending = self._flying.spawn(self._send, prompt, self.totals.sent, started_s + due_s)
            sending.link_exception(self._sending_failed)

    def _may_send(self) -> bool:
        limit = self._settings.requests
        return not self._stopping.is_set() and (limit is None or self.totals.sent < limit)

    def _sending_failed(self, sending: gevent.Greenlet) -> None:
        self._failure = sending.exception
        self._stopping.set()

    def _send(self, prompt: Prompt, number: int, due_s: float | None) -> None:
        """Send one request, measure it, and tell everyone who wants to know."""
        turn = number - 1 if prompt.session is None else prompt.session
        model = self.models[turn % len(self.models)]
        body = request_body(prompt, model, self._settings)
        at_s = time.time()
        late_s = None if due_s is None else time.perf_counter() - due_s
        measured = stream_request(self._client, self._path, body, self._headers)
        self._profile.answered(prompt, measured.text if measured.outcome == "ok" else None)
        record = RequestRecord(
            at_s=at_s,
            load=self._settings.name,
            profile=self._settings.profile,
            group=prompt.group,
            model=model,
            status=measured.status,
            outcome=measured.outcome,
            reason=measured.reason,
            ttft_s=measured.ttft_s,
            tpot_s=measured.tpot_s,
            duration_s=measured.end_s,
            prompt_tokens=measured.prompt_tokens,
            completion_tokens=measured.completion_tokens,
            cached_tokens=measured.cached_tokens,
            late_s=late_s,
        )
        self.totals.add(record)
        self._finished(record)
        self._tell_locust(record, measured)

    def _tell_locust(self, record: RequestRecord, measured: StreamMeasurement) -> None:
        """TTFT gets rows of its own that stay out of Locust's total, which counts requests."""
        name = self._settings.name
        self._environment.events.request.fire(
            request_type="POST",
            name=name,
            response_time=record.duration_s * _MS_PER_S,
            response_length=len(measured.text),
            exception=RuntimeError(record.reason) if record.reason else None,
            context={},
        )
        if record.ttft_s is not None:
            kind = {True: "TTFT hit", False: "TTFT miss", None: "TTFT"}[is_hit(record)]
            self._environment.stats.get(name, kind).log(record.ttft_s * _MS_PER_S, 0)

    def _watch_hub(self) -> None:
        """Measure how much later than asked this process's own event loop gets round to things."""
        while True:
            asleep_s = time.perf_counter()
            gevent.sleep(_NAP_S)
            self.totals.hub_lags_s.append(time.perf_counter() - asleep_s - _NAP_S)


def _address(host: str) -> tuple[str, str]:
    """Scheme and server of a URL, and the path that stands before the API's own."""
    parts = urlsplit(host)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/").removesuffix("/v1")


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
