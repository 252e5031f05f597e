"""Streams and answers of Anthropic's Messages API and of SGLang's /generate."""

import json
from typing import Any

import pytest

from hitcurve_loadtests.stream import measure
from hitcurve_loadtests.usage import Usage, read_usage


def named(kind: str, **values: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **values})}\n\n".encode()


def block(**delta: Any) -> bytes:
    return named("content_block_delta", index=0, delta=delta)


def message(start: dict[str, Any], end: dict[str, Any]) -> list[tuple[float, bytes]]:
    """A message as Anthropic's documentation shows them, with usage at its start and at its end."""
    return [
        (1.0, named("message_start", message={"role": "assistant", "content": [], "usage": start})),
        (1.1, named("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})),
        (1.2, named("ping")),
        (1.5, block(type="thinking_delta", thinking="hm")),
        (2.0, block(type="text_delta", text="good ")),
        (2.5, block(type="text_delta", text="day")),
        (2.6, named("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=end)),
        (2.7, named("message_stop")),
    ]


def test_an_anthropic_stream() -> None:
    start = {
        "input_tokens": 25,
        "output_tokens": 1,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 75,
    }
    seen = measure(message(start, {"output_tokens": 5}), status=200, started_s=0.0)
    assert (seen.outcome, seen.text, seen.reasoning, seen.content_events) == ("ok", "good day", "hm", 3)
    assert (seen.ttft_s, seen.first_content_s, seen.last_token_s, seen.tpot_s) == (1.5, 2.0, 2.5, 0.25)
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens) == (700, 5, 600)


def test_vllm_tells_the_cached_tokens_of_a_message_at_its_end_only() -> None:
    start = {"input_tokens": 700, "output_tokens": 0}
    end = {"input_tokens": 100, "output_tokens": 5, "cache_read_input_tokens": 600}
    seen = measure(message(start, end), status=200, started_s=0.0)
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens) == (700, 5, 600)


def test_an_engine_that_does_not_tell_cached_tokens_of_a_message_has_none() -> None:
    seen = measure(
        message({"input_tokens": 700, "output_tokens": 0}, {"output_tokens": 5}), status=200, started_s=0.0
    )
    assert (seen.prompt_tokens, seen.cached_tokens) == (700, None)


def test_an_anthropic_stream_that_is_cut_or_fails() -> None:
    usage = {"input_tokens": 7, "output_tokens": 1}
    cut = measure(message(usage, usage)[:-2], status=200, started_s=0.0)
    assert (cut.outcome, cut.reason) == ("failed", "stream ended without finish_reason or [DONE]")
    error = named("error", error={"type": "overloaded_error", "message": "Overloaded"})
    failed = measure([*message(usage, usage)[:-2], (3.0, error)], status=200, started_s=0.0)
    assert (failed.outcome, failed.reason) == ("failed", "error inside the stream: Overloaded")


def test_a_part_of_a_tool_call_is_a_token_without_text() -> None:
    pieces = [
        (1.0, block(type="input_json_delta", partial_json="")),
        (2.0, block(type="input_json_delta", partial_json="{")),
    ]
    seen = measure([*pieces, (3.0, named("message_stop"))], status=200, started_s=0.0)
    assert (seen.ttft_s, seen.first_content_s, seen.text, seen.outcome) == (2.0, 2.0, "", "ok")


def test_an_anthropic_answer_that_is_not_streamed() -> None:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "good day"}]
    usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 0}
    body = json.dumps({"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage}).encode()
    seen = measure([(1.0, body)], status=200, started_s=0.0)
    assert (seen.outcome, seen.text, seen.reasoning, seen.ttft_s) == ("ok", "good day", "hm", None)
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens) == (3, 2, 0)


def generated(text: str, finish: object = None, **meta: Any) -> bytes:
    values = {"text": text, "meta_info": {"finish_reason": finish, "prompt_tokens": 90, **meta}}
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def test_sglangs_own_stream_repeats_all_text_so_far() -> None:
    pieces = [
        (1.0, generated("", completion_tokens=0)),
        (2.0, generated("good", completion_tokens=1, cached_tokens=64)),
        (3.0, generated("good day", completion_tokens=2, cached_tokens=64)),
        (4.0, generated("good day", {"type": "length"}, completion_tokens=2, cached_tokens=64, queue_time=0.25)),
        (4.0, b"data: [DONE]\n\n"),
    ]
    seen = measure(pieces, status=200, started_s=0.0)
    assert (seen.outcome, seen.text, seen.ttft_s, seen.last_token_s, seen.content_events) == (
        "ok",
        "good day",
        2.0,
        3.0,
        2,
    )
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens, seen.queue_s) == (90, 2, 64, 0.25)


def test_sglangs_own_answer_may_not_tell_what_was_cached() -> None:
    body = generated("good day", {"type": "stop"}, completion_tokens=2).removeprefix(b"data: ").strip()
    seen = measure([(1.0, body)], status=200, started_s=0.0)
    assert (seen.outcome, seen.text, seen.prompt_tokens, seen.cached_tokens, seen.queue_s) == (
        "ok",
        "good day",
        90,
        None,
        None,
    )


def test_an_aborted_generation_failed() -> None:
    body = generated("good", {"type": "abort", "message": "gone"}, completion_tokens=1)
    assert (
        measure([(1.0, body)], status=200, started_s=0.0).reason
        == "the engine ended it with finish_reason 'abort'"
    )


@pytest.mark.parametrize("streamed", [True, False])
def test_vllm_tells_the_time_in_its_queue_where_asked_to(streamed: bool) -> None:
    choice = {"index": 0, "text": "a", "finish_reason": "stop"}
    metrics = {"queue_time_ms": 12.5, "time_to_first_token_ms": 3.0}
    if streamed:
        last: dict[str, Any] = {
            "choices": [],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
            "metrics": metrics,
        }
        body = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in ({"choices": [choice]}, last))
    else:
        body = json.dumps({"choices": [choice], "metrics": metrics}).encode()
    assert measure([(1.0, body)], status=200, started_s=0.0).queue_s == 0.0125


@pytest.mark.parametrize(
    ("usage", "right"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}},
            Usage(9, 2, 0),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(9, 2, None)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {}}, Usage(9, 2, None)),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 8}, Usage(9, 2, 8)),
        ({"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 8}, Usage(9, 2, None)),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": None}, Usage(1, 2, None)),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 8}}, Usage(9, 2, 8)),
        ({"output_tokens": 2}, Usage(None, 2, None)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 8}, Usage(9, 2, 8)),
        ("none of it", Usage()),
    ],
)
def test_usage_of_each_dialect(usage: object, right: Usage) -> None:
    assert read_usage(usage) == right
