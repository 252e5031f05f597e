"""Requests that wait, run, are left, are refused; resets and adapters; a failing engine."""

import http.client
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hitcurve_simulator.server.application import build_scheduler
from hitcurve_simulator.server.clock import RealClock
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.time_model import TimeModel
from hitcurve_simulator.vllm import RequestState, Scheduler

ENDLESS = {"max_tokens": 4000, "ignore_eos": True}
SLOW = TimeModel(decode_ms_per_step=20)


@contextmanager
def open_request(server: Any, **body: Any) -> Iterator[http.client.HTTPResponse]:
    """A streamed request that has been answered with headers; the client leaves where the block ends."""
    parts = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    try:
        sent = json.dumps({"stream": True, **body})
        connection.request("POST", "/v1/completions", sent, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def test_headers_come_before_the_first_token(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(max_num_seqs=1, time=SLOW), RealClock())
    with open_request(server, prompt="a" * 20, **ENDLESS) as running:
        running.readline()
        with open_request(server, prompt="b" * 20, max_tokens=1) as waiting:
            assert waiting.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert server.series()["vllm:num_requests_waiting"] == 1


def test_waiting_requests_are_counted_and_a_client_that_leaves_frees_its_blocks(
    engine_server: Callable[..., Any],
) -> None:
    server = engine_server(EngineSettings(max_num_seqs=1, block_size=16, num_blocks=513, time=SLOW), RealClock())
    with open_request(server, prompt="a" * 400, **ENDLESS) as running:
        running.readline()
        with open_request(server, prompt="b" * 20, **ENDLESS), open_request(server, prompt="c" * 20, **ENDLESS):
            series = server.wait_for(lambda series: series["vllm:num_requests_waiting"] == 2)
            assert series['vllm:num_requests_waiting_by_reason{reason="capacity"}'] == 2
            assert series["vllm:num_requests_running"] == 1
            assert series["vllm:kv_cache_usage_perc"] * 512 == pytest.approx(26, abs=2)
        series = server.wait_for(lambda series: series["vllm:num_requests_waiting"] == 0)
        assert series["vllm:num_requests_running"] == 1
    series = server.wait_for(lambda series: series["vllm:num_requests_running"] == 0)
    assert series["vllm:kv_cache_usage_perc"] == 0
    assert series["vllm:prefix_cache_queries_total"] == 400  # those that left while waiting were never looked up
    assert server.complete("a" * 400).json["usage"]["prompt_tokens_details"]["cached_tokens"] == 384


def test_a_client_that_leaves_without_streaming_frees_its_blocks_too(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(time=SLOW), RealClock())
    parts = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    body = json.dumps({"prompt": "a" * 40, "n": 3, **ENDLESS})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    server.wait_for(lambda series: series["vllm:num_requests_running"] == 3)
    connection.close()
    server.wait_for(lambda series: series["vllm:num_requests_running"] == 0)


def test_adapters_beyond_the_slots_are_deferred(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(max_loras=1, time=SLOW), RealClock())
    for name in ("a", "b"):
        server.call("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": "path"})
    with open_request(server, model="a", prompt="a" * 20, **ENDLESS) as running:
        running.readline()
        with open_request(server, model="b", prompt="b" * 20, **ENDLESS):
            series = server.wait_for(lambda series: series["vllm:num_requests_waiting"] == 1)
    assert series['vllm:num_requests_waiting_by_reason{reason="capacity"}'] == 0
    assert series['vllm:num_requests_waiting_by_reason{reason="deferred"}'] == 1


def test_preempted_requests_are_counted_once_and_answer_the_same(engine_server: Callable[..., Any]) -> None:
    settings = EngineSettings(block_size=32, num_blocks=129, max_model_len=4096, max_num_seqs=16)
    prompts = [letter * 1000 for letter in "abcdefgh"]
    roomy = engine_server(EngineSettings(block_size=32, num_blocks=1001, max_model_len=4096, max_num_seqs=16))
    tight = engine_server(settings)
    texts = [
        [choice["text"] for choice in server.complete(prompts, max_tokens=400).json["choices"]]
        for server in (roomy, tight)
    ]
    assert texts[0] == texts[1]
    series = tight.series()
    assert series["vllm:num_preemptions_total"] > 0
    assert series["vllm:request_num_preemptions_sum"] == series["vllm:num_preemptions_total"]
    assert series["vllm:prefix_cache_queries_total"] == 8000
    assert series["vllm:prompt_tokens_total"] == 8000
    assert series["vllm:generation_tokens_total"] == 3200
    assert roomy.series()["vllm:num_preemptions_total"] == 0


def test_a_reset_that_preempts_does_not_change_the_answer(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(time=SLOW, patched=True), RealClock())
    answers: list[str] = []
    undisturbed = engine_server()
    prompt = {"prompt": "a" * 50, "max_tokens": 80}
    thread = threading.Thread(target=lambda: answers.append(server.complete(**prompt).json["choices"][0]["text"]))
    thread.start()
    server.wait_for(lambda series: series["vllm:num_requests_running"] == 1)
    assert server.call("POST", "/reset_prefix_cache").json == {"success": False}
    path = "/reset_prefix_cache?reset_running_requests=true"
    assert server.call("POST", path).json == {"success": True}
    thread.join()
    assert answers == [undisturbed.complete(**prompt).json["choices"][0]["text"]]
    series = server.series()
    assert (series["vllm:num_preemptions_total"], series["hitcurve_engine_resets_total"]) == (1, 1)
    assert series["vllm:prefix_cache_queries_total"] == 50


def test_a_reset_leaves_the_counters_and_empties_the_cache(engine_server: Callable[..., Any]) -> None:
    server = engine_server()
    server.complete("a" * 100)
    before = server.series()["vllm:prefix_cache_queries_total"]
    assert server.call("POST", "/reset_prefix_cache").json == {"success": True}
    assert server.series()["vllm:prefix_cache_queries_total"] == before
    assert server.complete("a" * 100).json["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_without_dev_mode_and_without_lora_the_endpoints_are_not_there(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(dev_mode=False, max_loras=0))
    for path in ("/reset_prefix_cache", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
        answer = server.call("POST", path, {})
        assert (answer.status, answer.json) == (404, {"detail": "Not Found"})
    assert not any("lora" in series for series in server.series())


@pytest.mark.parametrize(("version", "hits"), [("0.32.0", 0), ("0.30.0", 192)])
def test_an_adapter_from_another_path_is_stale_up_to_0_30(
    engine_server: Callable[..., Any], version: str, hits: int
) -> None:
    server = engine_server(EngineSettings(version=version, block_size=32, num_blocks=513))
    for path in ("one", "two"):
        server.call("POST", "/v1/unload_lora_adapter", {"lora_name": "a"})
        server.call("POST", "/v1/load_lora_adapter", {"lora_name": "a", "lora_path": path})
        usage = server.complete("a" * 200, model="a").json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == hits


def test_no_hits_where_caching_is_off(engine_server: Callable[..., Any]) -> None:
    server = engine_server(EngineSettings(enable_prefix_caching=False))
    for _ in range(2):
        server.complete("a" * 100)
    series = server.series()
    assert (series["vllm:prefix_cache_queries_total"], series["vllm:prompt_tokens_total"]) == (0, 200)


def test_errors_are_whole_and_in_openai_form(engine_server: Callable[..., Any]) -> None:
    server = engine_server()
    unknown = server.complete("hello", model="nope")
    assert unknown.status == 404
    assert unknown.json == {
        "error": {
            "message": "The model `nope` does not exist; served are: simulated.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        }
    }
    wrong = server.complete("hello", max_tokens="many")
    assert wrong.status == 400
    assert wrong.json == {
        "error": {
            "message": "1 validation error: max_tokens must be an integer, not 'many'.",
            "type": "Bad Request",
            "param": "body.max_tokens",
            "code": 400,
        }
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": 100_000}, "n must be at most 16384, got 100000."),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens must not exceed max_tokens=8, got 9."),
        ({"min_tokens": -1}, "min_tokens must not be negative, got -1."),
    ],
)
def test_impossible_values_are_refused(
    engine_server: Callable[..., Any], wrong: dict[str, int], message: str
) -> None:
    answer = engine_server().complete("hello", **wrong)
    assert (answer.status, answer.json["error"]["message"]) == (400, message)


def test_an_unknown_role_is_refused(engine_server: Callable[..., Any]) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}, {"role": "pirate", "content": "arr"}]}
    answer = engine_server().call("POST", "/v1/chat/completions", body)
    assert answer.status == 400
    assert answer.json["error"]["message"] == (
        "1 validation error: there is no role 'pirate'; "
        "there are: system, developer, user, assistant, tool, function."
    )
    assert answer.json["error"]["param"] == "body.messages.1.role"


class BrokenScheduler(Scheduler):
    """Fails at its second step."""

    steps = 0

    def step(self) -> Any:
        self.steps += 1
        if self.steps == 2:
            raise RuntimeError("planted")
        return super().step()


def test_an_engine_that_fails_says_so(engine_server: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    def build(settings: EngineSettings, next_token: Callable[[RequestState], int]) -> Scheduler:
        healthy = build_scheduler(settings, next_token)
        return BrokenScheduler(healthy.manager, healthy.settings, next_token)

    server = engine_server(scheduler_builder=build)
    assert server.call("GET", "/health").status == 200
    error = {"message": "The engine failed.", "type": "InternalServerError", "param": None, "code": 500}
    streamed = server.complete("hello", stream=True)
    assert [streamed.status, *streamed.events[1:]] == [200, {"error": error}, "[DONE]"]
    assert server.call("GET", "/health").status == 503
    for answer in (server.complete("hello"), server.call("POST", "/reset_prefix_cache")):
        assert (answer.status, answer.json) == (500, {"error": error})
    assert server.series()['vllm:request_success_total{finished_reason="error"}'] == 1
    assert "planted" in caplog.text
