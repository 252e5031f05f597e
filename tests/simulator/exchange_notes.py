"""What a client can tell apart about an engine's answers: status, shape, usage, and what the counters did."""

import http.client
import json
import os
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

COMPLETIONS, CHAT, RESET = "/v1/completions", "/v1/chat/completions", "/reset_prefix_cache"
SETTLED_S = float(os.environ.get("SETTLED_S", "0.05"))
"""Between two readings of /metrics that must agree before an exchange counts as over."""
DEADLINE_S = 60.0
IDLE = 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0'


class Player:
    """Plays against one engine; ``notes`` collects what was seen, by name."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.notes: dict[str, Any] = {}

    def call(self, name: str, method: str, path: str, body: object = None, **how: Any) -> None:
        """One request, its answer and what it did to the counters."""
        before = self.counters()
        note = self.exchange(method, path, body, **how)
        note["counters"] = difference(before, self.settled())
        assert name not in self.notes, name
        self.notes[name] = note

    def complete(self, name: str, **body: Any) -> None:
        self.call(name, "POST", COMPLETIONS, {"model": "tiny", "max_tokens": 4, "ignore_eos": True, **body})

    def chat(self, name: str, **body: Any) -> None:
        self.call(name, "POST", CHAT, {"model": "tiny", "ignore_eos": True, **body})

    def exchange(self, method: str, path: str, body: object = None, **how: Any) -> dict[str, Any]:
        raw = how.get("raw")
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = how.get("headers", {"Content-Type": "application/json"} if data is not None else {})
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            content = answer.read().decode()
        finally:
            connection.close()
        return {"status": answer.status, **digest(answer.headers.get_content_type(), content)}

    @contextmanager
    def held(self, **body: Any) -> Iterator[http.client.HTTPResponse]:
        """A streamed completion that has begun to answer; its connection is cut where the block ends."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        try:
            sent = {"model": "tiny", "ignore_eos": True, "stream": True, **body}
            connection.request("POST", COMPLETIONS, json.dumps(sent), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.readline()
            with answer:  # it would keep the socket open
                yield answer
        finally:
            connection.close()

    @contextmanager
    def running(self, **body: Any) -> Iterator[None]:
        """A completion that runs inside the block; it is left to end by itself. Not streamed, so that an engine
        whose API lags behind its core answers other calls at once."""
        sent = {"model": "tiny", "ignore_eos": True, **body}
        thread = threading.Thread(target=self.exchange, args=("POST", COMPLETIONS, sent))
        thread.start()
        deadline = time.monotonic() + DEADLINE_S
        while IDLE in self.page():
            assert time.monotonic() < deadline, "the request does not begin to run"
        yield
        thread.join()

    def page(self) -> str:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def counters(self) -> dict[str, float]:
        return counters_of(self.page())

    def settled(self) -> dict[str, float]:
        """Counters once nothing runs and two readings agree."""
        deadline = time.monotonic() + DEADLINE_S
        earlier: dict[str, float] = {}
        while True:
            page = self.page()
            now = counters_of(page)
            if IDLE in page and now == earlier:
                return now
            assert time.monotonic() < deadline, "the engine does not come to rest"
            earlier = now
            time.sleep(SETTLED_S)


def counters_of(page: str) -> dict[str, float]:
    """Counters, and counts and sums of histograms that do not depend on time."""
    values = {}
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if series.startswith("vllm:"):
            name = series.partition("{")[0]
            if name.endswith(("_total", "_count", "tokens_sum", "_n_sum")):
                values[short(series)] = float(value)
    return values


def short(series: str) -> str:
    for label in ('engine="0",', 'model_name="tiny",', ',model_name="tiny"', 'model_name="tiny"'):
        series = series.replace(label, "")
    return series.removeprefix("vllm:").replace("{}", "")


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    steps = "iteration_tokens_total_count"  # how many steps a request takes depends on timing
    return {
        key: after[key] - before.get(key, 0)
        for key in sorted(after)
        if after[key] != before.get(key, 0) and key != steps
    }


def digest(content_type: str, content: str) -> dict[str, Any]:
    if content_type == "text/event-stream":
        return {"content_type": content_type, **digest_events(content)}
    if content_type != "application/json" or not content:
        return {"content_type": content_type if content else None, "empty": not content}
    values = json.loads(content)
    if "error" in values:
        error = values["error"]
        param = (error["param"] or "").split(".")
        return {"error": {**error, "message": bool(error["message"]), "param": ".".join(param[:2]) or None}}
    note: dict[str, Any] = {"shape": shape(values), "usage": values.get("usage")}
    if "choices" in values:
        note["finish"] = [[choice["index"], choice["finish_reason"]] for choice in values["choices"]]
    if "success" in values or "detail" in values:
        note["body"] = values
    if values.get("object") == "list":
        note["models"] = [[card["id"], card["parent"], card["max_model_len"]] for card in values["data"]]
    return note


def digest_events(content: str) -> dict[str, Any]:
    events = [line.removeprefix("data: ") for line in content.splitlines() if line]
    chunks = [json.loads(event) for event in events[:-1]]
    shapes: list[Any] = []
    for chunk in chunks:
        if not shapes or shapes[-1] != shape(chunk):
            shapes.append(shape(chunk))
    single = {choice["index"] for chunk in chunks for choice in chunk["choices"]} == {0}
    return {
        "last": events[-1],
        "usage": chunks[-1].get("usage"),
        "shapes": shapes if single else None,  # several samples interleave as the timing has it
        "finish": sorted(
            [c["index"], c["finish_reason"]] for k in chunks for c in k["choices"] if c["finish_reason"]
        ),
    }


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], dict) else "list"
    return type(value).__name__


def families(page: str) -> list[str]:
    """Names, kinds and label names on the page, of engine metrics only."""
    kinds = {line.split()[2]: line.split()[3] for line in page.splitlines() if line.startswith("# TYPE vllm:")}
    labels: dict[str, set[str]] = {}
    for line in page.splitlines():
        if line.startswith("vllm:"):
            name, _, rest = line.partition("{")
            family = next(
                (
                    n
                    for n in (
                        name,
                        name.removesuffix("_bucket"),
                        name.removesuffix("_count"),
                        name.removesuffix("_sum"),
                    )
                    if n in kinds
                ),
                name,
            )
            names = {part.partition("=")[0] for part in rest.partition("} ")[0].replace('",', '"\n').splitlines()}
            labels.setdefault(family, set()).update(names)
    return [f"{kind} {name} {','.join(sorted(labels.get(name, ())))}" for name, kind in kinds.items()]
