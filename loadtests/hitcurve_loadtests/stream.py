"""Measures one response of an OpenAI-compatible engine: when its tokens came and what it said about them.

``measure`` does it for a recorded response, ``StreamMeter`` for one that is still arriving, with the same code.
Times are differences of one monotonic clock (``time.perf_counter`` in live use), in seconds.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from hitcurve_loadtests.same_event import SameEvent
from hitcurve_loadtests.sse import EventReader
from hitcurve_loadtests.usage import Usage, read_usage

__all__ = ["Outcome", "StreamMeasurement", "StreamMeter", "measure"]

Outcome = Literal["ok", "failed"]

_DONE = b"[DONE]"
_BODY_NOT_EVENTS = b"{[<"
_BROKEN_OFF = ("abort", "error")
"""Finish reasons of requests that were not carried out (vLLM 0.32: FINISH_REASON_STRINGS)."""
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class StreamMeasurement:
    """What one response showed. Times in seconds since the request was sent; ``None`` is "no value"."""

    outcome: Outcome
    reason: str | None
    """Why it failed; ``None`` where it did not."""
    status: int | None
    """HTTP status; ``None`` where no answer came."""
    ttft_s: float | None
    """First non-empty delta, reasoning included. A response that is not streamed has none."""
    first_content_s: float | None
    """First non-empty delta that is not reasoning."""
    last_token_s: float | None
    tpot_s: float | None
    """(last token - first token) / (completion tokens - 1). A chunk may hold many tokens, so the engine's own
    count is used; without it, or with a single token, there is no value."""
    end_s: float
    """When the last byte came or the connection was closed."""
    text: str
    reasoning: str
    content_events: int
    """Events with a non-empty delta. Not a count of tokens."""
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None


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
        self._usage = Usage()
        self._complete = False
        self._failure: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the engine said that it is done: a ``finish_reason`` or ``[DONE]`` came."""
        return self._complete

    def feed(self, at_s: float, data: bytes) -> None:
        """Take bytes that arrived at ``at_s``; none at all says that the connection was closed then."""
        self._last_arrival_s = at_s
        if self._is_events is None and data.strip():
            self._is_events = data.lstrip()[:1] not in _BODY_NOT_EVENTS
        if self._is_events is False:
            self._body.append(data)
            return
        events = self._events.feed(data)
        while events:
            known, text = self._same_event.texts_of(events)
            if known:
                self._text.append(text)
                self._content_events += known
                self._last_token_s = at_s
            if known < len(events):
                self._take_event(at_s, events[known])
            events = events[known + 1 :]

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
        )

    def _take_event(self, at_s: float, data: bytes) -> None:
        if data.startswith(_DONE):
            self._complete = True
            return
        try:
            event = _decode(data)
        except (ValueError, RecursionError):
            self._failure = self._failure or "an event of the stream is not JSON"
            return
        if not isinstance(event, dict):
            self._failure = self._failure or "an event of the stream is not a JSON object"
            return
        if ("error" in event or event.get("object") == "error") and (error := _error_text(event)) is not None:
            self._failure = self._failure or f"error inside the stream: {error}"
        if (usage := event.get("usage")) is not None:
            self._usage = read_usage(usage)
        self._take_choices(at_s, event.get("choices"))
        if not self._complete:
            self._same_event.learn(data, event)

    def _take_choices(self, at_s: float, choices: object) -> None:
        any_token = any_content = False
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            content, reasoning, other = _delta(choice)
            if content or other:
                any_token = any_content = True
            elif reasoning:
                any_token = True
            if choice.get("index", 0) == 0:
                self._text.append(content)
                self._reasoning.append(reasoning)
            self._take_finish(choice.get("finish_reason"))
        if any_token:
            self._content_events += 1
            self._last_token_s = at_s
            if self._first_token_s is None:
                self._first_token_s = at_s
            if any_content and self._first_content_s is None:
                self._first_content_s = at_s

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
        error = _error_text(answer) if isinstance(answer, dict) else None
        if not ok:
            if self._status is not None:
                self._failure = f"HTTP {self._status}" + (f": {error}" if error else "")
            return
        if not isinstance(answer, dict):
            self._failure = "the body is neither an event stream nor a JSON object"
            return
        if error is not None:
            self._failure = f"error inside the answer: {error}"
        self._usage = read_usage(answer.get("usage"))
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                content, reasoning, _ = _delta(choice)
                self._text.append(content)
                self._reasoning.append(reasoning)
                self._take_finish(choice.get("finish_reason"))

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


def _decode(data: bytes) -> object:
    """The JSON value; orjson is four times as fast and refuses a few odd values that ``json`` takes."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)


def _delta(choice: Mapping[str, Any]) -> tuple[str, str, bool]:
    """(content, reasoning, whether something else was generated, such as a tool call) of one choice."""
    delta = choice.get("delta") or choice.get("message")
    if not isinstance(delta, Mapping):
        return _text(choice.get("text")), "", False
    reasoning = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    return _text(delta.get("content")), reasoning, bool(delta.get("tool_calls"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _error_text(answer: Mapping[str, Any]) -> str | None:
    """Message of an error object in one of its usual shapes; ``None`` where the answer holds no error."""
    error = answer.get("error")
    if error is None and answer.get("object") == "error":
        error = answer
    if error is None:
        return None
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or "no message"
    return " ".join(str(error).split()).encode("utf-8", "replace").decode()
