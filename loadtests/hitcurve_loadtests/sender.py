"""Sends one prompt, measures the answer and tells everyone who wants to know. For load processes only (gevent)."""

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from geventhttpclient import HTTPClient
from locust.env import Environment

from hitcurve_loadtests.openai_api import PATHS, request_body, request_headers
from hitcurve_loadtests.post_connections import PostConnections
from hitcurve_loadtests.prompt_log import PROMPTS_FILE, PromptLog
from hitcurve_loadtests.prompts import Prompt
from hitcurve_loadtests.records import RequestRecord
from hitcurve_loadtests.settings import LoadSettings
from hitcurve_loadtests.stream import StreamMeasurement
from hitcurve_loadtests.summary import RunTotals, is_hit
from hitcurve_loadtests.traffic.traffic import Traffic
from hitcurve_loadtests.transport import stream_request

__all__ = ["Destination", "RequestSender", "destination"]

_CONNECT_TIMEOUT_S = 10.0
_MS_PER_S = 1000.0
_TTFT_ROWS = {True: "TTFT hit", False: "TTFT miss", None: "TTFT"}


@dataclass(frozen=True, slots=True)
class Destination:
    """One host: its connections, and the path that stands before the API's own."""

    host: str
    client: HTTPClient
    base_path: str
    connections: int
    timeout_s: float

    def posting_to(self, path: str, headers: Mapping[str, str]) -> PostConnections:
        """Connections for requests of one kind."""
        parts = urlsplit(self.host)
        return PostConnections(
            f"{parts.scheme}://{parts.netloc}{self.base_path}{path}",
            headers,
            connections=self.connections,
            connect_timeout_s=_CONNECT_TIMEOUT_S,
            timeout_s=self.timeout_s,
        )


def destination(host: str, *, connections: int, timeout_s: float) -> Destination:
    """A pool of connections to ``host``; nothing is connected yet."""
    parts = urlsplit(host)
    client = HTTPClient.from_url(
        f"{parts.scheme}://{parts.netloc}",
        connection_timeout=_CONNECT_TIMEOUT_S,
        network_timeout=timeout_s,
    )
    return Destination(host, client, parts.path.rstrip("/").removesuffix("/v1"), connections, timeout_s)


class RequestSender:
    """Sends the prompts of one run to its hosts. ``finished`` is called with every record.

    ``count`` tells the tokens of a prompt that were meant, ``None`` where a chat template adds its own.
    """

    def __init__(
        self,
        settings: LoadSettings,
        destinations: Sequence[Destination],
        models: Sequence[str],
        traffic: Traffic,
        count: Callable[[str], int] | None,
        totals: RunTotals,
        environment: Environment,
        finished: Callable[[RequestRecord], None],
    ) -> None:
        self._settings = settings
        self._destinations = destinations
        headers = request_headers(settings)
        self._posting = [place.posting_to(PATHS[settings.api], headers) for place in destinations]
        self._models = models
        self._traffic = traffic
        self._count = count
        self.totals = totals
        self._environment = environment
        self._finished = finished
        wanted = settings.out if settings.log_prompts else None
        self._prompts = None if wanted is None else PromptLog(wanted / PROMPTS_FILE)

    def send(self, prompt: Prompt, number: int, due_s: float | None) -> None:
        """``number`` counts the requests of the run from 1; ``due_s`` is when it was due, of perf_counter."""
        model = self._model(prompt, number)
        place = self._place(prompt, number, model)
        body = request_body(prompt, model, self._settings)
        at_s = time.time()
        late_s = None if due_s is None else max(time.perf_counter() - due_s, 0.0)
        measured = stream_request(self._posting[place], body)
        self._traffic.answered(prompt, measured.text if measured.outcome == "ok" else None)
        record = self._record(prompt, number, model, at_s, late_s, measured)
        self.totals.add(record, self._destinations[place].host)
        if self._count is not None and record.prompt_tokens is not None:
            self.totals.length_seen(self._count(prompt.text), record.prompt_tokens)
        self._finished(record)
        if self._prompts is not None:
            self._prompts.append(body, record, measured.text)
        self._tell_locust(record, measured)

    def _model(self, prompt: Prompt, number: int) -> str:
        rank = prompt.model_rank
        if rank is None:
            rank = number - 1 if prompt.session is None else prompt.session
        return self._models[rank % len(self._models)]

    def _place(self, prompt: Prompt, number: int, model: str) -> int:
        """Which host: by turns, or always the same for all that is routed together."""
        count = len(self._destinations)
        if count == 1:
            return 0
        if self._settings.spread == "scattered":
            return (number - 1) % count
        key = {"group": prompt.group, "adapter": model, "tenant": prompt.cache_salt or ""}[self._settings.route]
        return zlib.crc32(key.encode()) % count

    def _record(
        self,
        prompt: Prompt,
        number: int,
        model: str,
        at_s: float,
        late_s: float | None,
        measured: StreamMeasurement,
    ) -> RequestRecord:
        return RequestRecord(
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
            first_content_s=measured.first_content_s,
            number=number,
            worker=self._settings.worker,
            queue_s=measured.queue_s,
        )

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
            self._environment.stats.get(name, _TTFT_ROWS[is_hit(record)]).log(record.ttft_s * _MS_PER_S, 0)
