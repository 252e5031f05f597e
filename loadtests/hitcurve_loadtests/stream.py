"""Measures one response of an OpenAI-compatible engine: when its tokens came and what it said about them.

``measure`` does it for a recorded response, ``StreamMeter`` for one that is still arriving, with the same code.
Times are differences of one monotonic clock (``time.perf_counter`` in live use), in seconds.
"""

import json
from collections.abc import Iterable
from typing import Any

import orjson

from hitcurve_loadtests.error_text import error_text
from hitcurve_loadtests.measurement import Outcome, StreamMeasurement
from hitcurve_loadtests.openai_answers import delta_of, queue_time_s, read_answer
from hitcurve_loadtests.other_dialects import Brought, read_other_event
from hitcurve_loadtests.same_event import SameEvent
from hitcurve_loadtests.sse import EventReader
from hitcurve_loadtests.usage import Usage, read_usage

__all__ = ["Outcome", "StreamMeasurement", "StreamMeter", "measure"]

_DONE = b"[DONE]"
_BODY_NOT_EVENTS = b"{[<"
_DATA = b"data: "
_END, _CRLF_END = (b"\n\n", b"\n"), (b"\r\n\r\n", b"\r\n")
"""What ends an event, and what ends a line."""
_UNKNOWN = Usage()
_BROKEN_OFF = ("abort", "error")
"""Finish reasons of requests that were not carried out (vLLM 0.32: FINISH_REASON_STRINGS)."""
_NOT_JSON = "an event of the stream is not JSON"
_LONGEST_REASON = 200


def measure(chunks: Iterable[tuple[float, bytes]], *, status: int | None, started_s: float) -> StreamMeasurement:
    """Measure a response from its bytes.

    ``chunks`` are (arrival time, bytes) in order, ``started_s`` is when the request was sent on the same clock.
    Empty bytes mark when the connection was closed. Events may be cut anywhere.
    """
    meter = StreamMeter(status=status, started_s=started_s)
    for at_s, data in chunks:
        meter.feed(at_s, data)
    return meter.finish()


class StreamMeter:
    """Measures a response while it arrives: ``feed`` each piece with its arrival time, then ``finish`` once."""

    def __init__(self, *, status: int | None, started_s: float) -> None:
        self._status = status
        self._started_s = started_s
        self._events = EventReader()
        self._is_events: bool | None = None if status is not None and 200 <= status < 300 else False
        self._body: list[bytes] = []
        self._last_arrival_s = started_s
        self._first_token_s: float | None = None
        self._first_content_s: float | None = None
        self._last_token_s: float | None = None
        self._content_events = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._same_event = SameEvent()
        self._usage = _UNKNOWN
        self._complete = False
        self._failure: str | None = None
        self._queue_s: float | None = None

    @property
    def complete(self) -> bool:
        """Whether the engine said that it is done: a ``finish_reason`` or ``[DONE]`` came."""
        return self._complete

    def feed(self, at_s: float, data: bytes) -> None:
        """Take bytes that arrived at ``at_s``; none at all says that the connection was closed then."""
        self._last_arrival_s = at_s
        if self._is_events is None and (begin := data.lstrip()[:1]):
            self._is_events = begin not in _BODY_NOT_EVENTS
        if self._is_events is False:
            self._body.append(data)
            return
        while data:
            if self._events.between_events and (start := self._take_whole_events(at_s, data)):
                data = data[start:]
                continue
            head, end, data = data.partition(b"\n\n")
            for event in self._events.feed(head + end):
                self._take_event(at_s, event)
            if self._events.error is not None and self._failure in (None, _NOT_JSON):
                self._failure = f"error inside the stream: {_words(self._events.error)}"

    def _take_whole_events(self, at_s: float, data: bytes) -> int:
        """Take the events at the beginning of ``data`` that are a single line each, and say where they end."""
        start = 0
        while data.startswith(_DATA, start):
            if (known := self._same_event.take(data, start)) is not None:
                start, events, text = known
                self._text.append(text)
                self._content_events += events
                self._last_token_s = at_s
                continue
            end, line_end = _CRLF_END if b"\r" in data else _END
            stop = data.find(line_end, start)
            event = data[start + len(_DATA) : stop]
            if stop < 0 or not data.startswith(end, stop) or b"\r" in event or b"\n" in event:
                break
            start = stop + len(end)
            if (brought := self._take_event(at_s, event)) is not None:
                self._same_event.learn(event, *brought, end)
        return start

    def finish(self, at_s: float | None = None, *, reason: str | None = None) -> StreamMeasurement:
        """The measurement; ``reason`` tells why reading ended early (a broken connection, a timeout)."""
        if at_s is not None:
            self._last_arrival_s = at_s
        if self._is_events is False:
            self._take_body(b"".join(self._body))
        else:
            self._take_rest()
        failure = self._failure or reason or self._incomplete()
        return StreamMeasurement(
            outcome="failed" if failure else "ok",
            reason=failure[:_LONGEST_REASON] if failure else None,
            status=self._status,
            ttft_s=self._since_start(self._first_token_s),
            first_content_s=self._since_start(self._first_content_s),
            last_token_s=self._since_start(self._last_token_s),
            tpot_s=self._time_per_output_token(),
            end_s=self._last_arrival_s - self._started_s,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            content_events=self._content_events,
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens,
            cached_tokens=self._usage.cached_tokens,
            queue_s=self._queue_s,
        )

    def _take_event(self, at_s: float, data: bytes) -> tuple[str, str] | None:
        """Key and text where the event brings a text and nothing else."""
        if data.startswith(_DONE):
            self._complete = True
            return None
        try:
            event = _decode(data)
        except (ValueError, RecursionError):
            self._failure = self._failure or _NOT_JSON
            return None
        if not isinstance(event, dict):
            self._failure = self._failure or "an event of the stream is not a JSON object"
            return None
        if ("error" in event or event.get("object") == "error") and (error := error_text(event)) is not None:
            self._failure = self._failure or f"error inside the stream: {error}"
        if (usage := event.get("usage")) is not None:
            told = read_usage(usage)
            self._usage = told if self._usage is _UNKNOWN else self._usage.updated(told)
        choices = event.get("choices")
        if isinstance(choices, list):
            text = self._take_choices(at_s, choices)
            if (metrics := event.get("metrics")) is not None:
                self._queue_s = queue_time_s(metrics)
            return text if usage is None and not self._complete and not self._failure else None
        if (brought := read_other_event(event)) is not None:
            self._take_brought(at_s, brought)
        return None

    def _take_choices(self, at_s: float, choices: list[Any]) -> tuple[str, str] | None:
        """Key and text where there is one choice and text is all it brings."""
        any_token = any_content = False
        only: tuple[str, str] | None = None
        for choice in choices:
            if not isinstance(choice, dict):
                continue
            key, content, reasoning, other = delta_of(choice)
            if content or other:
                any_token = any_content = True
            elif reasoning:
                any_token = True
            if choice.get("index", 0) == 0:
                if content:
                    self._text.append(content)
                if reasoning:
                    self._reasoning.append(reasoning)
                elif content and not other:
                    only = key, content
            if (reason := choice.get("finish_reason")) is not None:
                self._take_finish(reason)
        if any_token:
            self._take_token(at_s, any_content)
        return only if len(choices) == 1 else None

    def _take_token(self, at_s: float, content: bool) -> None:
        self._content_events += 1
        self._last_token_s = at_s
        if self._first_token_s is None:
            self._first_token_s = at_s
        if content and self._first_content_s is None:
            self._first_content_s = at_s

    def _take_brought(self, at_s: float, brought: Brought) -> None:
        """Of an event or an answer of another dialect."""
        content = brought.content
        if brought.replaces:
            before = "".join(self._text)
            if content and content != before:
                self._text = [content]
            else:
                content = ""
        elif content:
            self._text.append(content)
        if brought.reasoning:
            self._reasoning.append(brought.reasoning)
        if content or brought.reasoning or brought.other:
            self._take_token(at_s, bool(content or brought.other))
        if brought.usage is not None:
            self._usage = self._usage.updated(brought.usage)
        if brought.queue_s is not None:
            self._queue_s = brought.queue_s
        self._take_finish(brought.finish)

    def _take_finish(self, reason: object) -> None:
        if reason:
            self._complete = True
            if reason in _BROKEN_OFF:
                self._failure = self._failure or f"the engine ended it with finish_reason '{reason}'"

    def _take_rest(self) -> None:
        """The last event may lack its blank line; half an event is what a cut connection leaves behind."""
        rest = self._events.rest()
        if rest is None or self._complete:
            return
        if rest.strip() == _DONE:
            self._complete = True
            return
        try:
            json.loads(rest)
        except ValueError:
            return
        self._take_event(self._last_arrival_s, rest)

    def _take_body(self, body: bytes) -> None:
        """A body that is not an event stream: an error, or the whole answer at once."""
        ok = self._status is not None and 200 <= self._status < 300
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        error = error_text(answer) if isinstance(answer, dict) else None
        if not ok:
            if self._status is not None:
                self._failure = f"HTTP {self._status}" + (f": {error}" if error else "")
            return
        if not isinstance(answer, dict):
            self._failure = "the body is neither an event stream nor a JSON object"
            return
        if error is not None:
            self._failure = f"error inside the answer: {error}"
        if (brought := read_answer(answer)) is not None:
            self._text.append(brought.content)
            self._reasoning.append(brought.reasoning)
            self._usage = _UNKNOWN if brought.usage is None else brought.usage
            self._queue_s = brought.queue_s
            self._take_finish(brought.finish)

    def _incomplete(self) -> str | None:
        if self._status is None:
            return "no answer"
        if not self._complete:
            return "stream ended without finish_reason or [DONE]"
        if self._is_events and not self._content_events and not self._usage.completion_tokens:
            return "stream ended without a token"
        return None

    def _since_start(self, at_s: float | None) -> float | None:
        return None if at_s is None else at_s - self._started_s

    def _time_per_output_token(self) -> float | None:
        tokens = self._usage.completion_tokens
        if tokens is None or tokens < 2 or self._first_token_s is None or self._last_token_s is None:
            return None
        return (self._last_token_s - self._first_token_s) / (tokens - 1)


def _words(error: bytes) -> str:
    """What an event of the type ``error`` says that holds no error in a usual shape."""
    return " ".join(error.decode(errors="replace").split()) or "no message"


def _decode(data: bytes) -> object:
    """The JSON value; orjson is four times as fast and refuses a few odd values that ``json`` takes."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)
