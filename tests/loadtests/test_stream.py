"""What a stream's measurement says beyond the recorded cases."""

import itertools
import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve_loadtests.stream import StreamMeter, measure


def chunk(**values: Any) -> bytes:
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def delta(finish: str | None = None, index: int = 0, **values: Any) -> bytes:
    return chunk(choices=[{"index": index, "delta": values, "finish_reason": finish}])


DONE = b"data: [DONE]\n\n"


def test_everything_a_good_stream_tells() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}
    chunks = [
        (100.0, delta(role="assistant", content="")),
        (100.5, delta(reasoning_content="hm, ")),
        (101.0, delta(reasoning="well")),
        (102.0, delta(content="good")),
        (103.5, delta(content=" day", finish="stop")),
        (103.6, chunk(choices=[], usage=usage)),
        (103.7, DONE),
    ]
    seen = asdict(measure(chunks, status=200, started_s=99.0))
    assert seen == {
        "outcome": "ok",
        "reason": None,
        "status": 200,
        "ttft_s": 1.5,
        "first_content_s": 3.0,
        "last_token_s": 4.5,
        "tpot_s": 1.0,
        "end_s": pytest.approx(4.7),
        "text": "good day",
        "reasoning": "hm, well",
        "content_events": 4,
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "cached_tokens": 8,
        "queue_s": None,
    }


def test_a_completion_stream_has_its_text_beside_the_choice() -> None:
    chunks = [(1.0, chunk(choices=[{"index": 0, "text": "a"}])), (2.0, chunk(choices=[{"index": 0, "text": "b"}]))]
    seen = measure([*chunks, (2.0, DONE)], status=200, started_s=0.0)
    assert (seen.text, seen.ttft_s, seen.outcome) == ("ab", 1.0, "ok")
    assert (seen.tpot_s, seen.completion_tokens) == (None, None)


def test_only_the_first_choice_gives_the_text_but_any_gives_the_first_token() -> None:
    chunks = [(1.0, delta(index=1, content="x")), (2.0, delta(content="y", finish="stop")), (2.0, DONE)]
    seen = measure(chunks, status=200, started_s=0.0)
    assert (seen.ttft_s, seen.text) == (1.0, "y")


def test_a_tool_call_is_a_token_without_text() -> None:
    call = [{"index": 0, "function": {"name": "f", "arguments": ""}}]
    seen = measure([(1.0, delta(tool_calls=call, finish="tool_calls")), (1.1, DONE)], status=200, started_s=0.0)
    assert (seen.ttft_s, seen.text, seen.outcome) == (1.0, "", "ok")


@pytest.mark.parametrize(
    "brought",
    [
        {"function_call": {"name": "f", "arguments": ""}},
        {"refusal": "I cannot"},
        {"audio": {"data": "UklGRg=="}},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    ],
)
def test_whatever_is_generated_is_a_token(brought: dict[str, Any]) -> None:
    chunks = [(1.0, delta(role="assistant")), (2.0, delta(**brought)), (3.0, delta("stop")), (3.0, DONE)]
    seen = measure(chunks, status=200, started_s=0.0)
    assert (seen.outcome, seen.ttft_s, seen.first_content_s, seen.text) == ("ok", 2.0, 2.0, "")


def test_a_tool_call_without_name_and_arguments_is_no_token() -> None:
    empty = [{"index": 0, "function": {"name": None, "arguments": ""}}]
    call = [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]
    chunks = [(1.0, delta(tool_calls=empty)), (2.0, delta("tool_calls", tool_calls=call)), (2.0, DONE)]
    assert measure(chunks, status=200, started_s=0.0).ttft_s == 2.0


def test_an_event_of_the_type_error_is_one_wherever_it_is_cut() -> None:
    error = b"event: error\ndata: full\n\n"
    for cut in range(len(error)):
        chunks = [(1.0, delta("stop", content="a") + error[:cut]), (2.0, error[cut:] + DONE)]
        assert measure(chunks, status=200, started_s=0.0).reason == "error inside the stream: full", cut


@pytest.mark.parametrize("cut", [0, 1, 3, 9])
def test_a_byte_order_mark_hides_no_event(cut: int) -> None:
    body = b"\xef\xbb\xbf" + delta(content="a")
    chunks = [(1.0, body[:cut]), (1.0, body[cut:]), (2.0, delta("stop", content="b")), (2.0, DONE)]
    seen = measure([piece for piece in chunks if piece[1]], status=200, started_s=0.0)
    assert (seen.text, seen.ttft_s) == ("ab", 1.0)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (503, b"", "HTTP 503"),
        (404, b'{"error": {"message": "no model \\n m"}}', "HTTP 404: no model m"),
        (400, b'{"object": "error", "message": "too long"}', "HTTP 400: too long"),
        (401, b'{"error": "who are you"}', "HTTP 401: who are you"),
        (502, b"<html>bad gateway</html>", "HTTP 502"),
        (200, b"<html>hello</html>", "the body is neither an event stream nor a JSON object"),
        (200, b'["a list"]', "the body is neither an event stream nor a JSON object"),
        (200, b'{"error": {"code": 500}}', "error inside the answer: 500"),
        (200, b"", "stream ended without finish_reason or [DONE]"),
        (200, DONE, "stream ended without a token"),
        (200, b"data: {]\n\n" + DONE, "an event of the stream is not JSON"),
        (200, b"data: " + b"[" * 100_000 + b"\n\n" + DONE, "an event of the stream is not JSON"),
        (200, b"data: 7\n\n" + DONE, "an event of the stream is not a JSON object"),
        (200, delta(content="a", finish="abort") + DONE, "the engine ended it with finish_reason 'abort'"),
        (200, delta(content="a") + b'data: {"choices": [', "stream ended without finish_reason or [DONE]"),
        (200, b"event: error\ndata: out  of memory\n\n" + DONE, "error inside the stream: out of memory"),
        (
            200,
            delta("stop", content="a") + b'event: error\ndata: {"code": 5}\n\n',
            'error inside the stream: {"code": 5}',
        ),
        (200, delta("stop", content="a") + b"event: error\n: Dynamo\n\n", "error inside the stream: no message"),
        (200, b"event: error\n" + chunk(error={"message": "full"}), "error inside the stream: full"),
        (200, chunk(error={"message": "x" * 500}), "error inside the stream: " + "x" * 175),
    ],
)
def test_failures_say_why(status: int, body: bytes, reason: str) -> None:
    seen = measure([(1.0, body)], status=status, started_s=0.0)
    assert (seen.outcome, seen.reason, seen.status) == ("failed", reason, status)


def test_an_error_after_tokens_keeps_their_ttft() -> None:
    chunks = [(1.0, delta(content="a")), (2.0, chunk(error={"message": "aborted"})), (2.0, DONE)]
    seen = measure(chunks, status=200, started_s=0.0)
    assert (seen.outcome, seen.ttft_s, seen.reason) == ("failed", 1.0, "error inside the stream: aborted")


@pytest.mark.parametrize("ending", [b"data: [DONE]", b"data: [DONE]\n"])
def test_the_last_event_may_lack_its_blank_line(ending: bytes) -> None:
    seen = measure([(1.0, delta(content="a")), (2.0, ending)], status=200, started_s=0.0)
    assert (seen.outcome, seen.end_s) == ("ok", 2.0)


def test_tokens_without_text_are_no_failure_and_have_no_ttft() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    body = delta(finish="length", content="") + chunk(choices=[], usage=usage) + DONE
    seen = measure([(1.0, body)], status=200, started_s=0.0)
    assert (seen.outcome, seen.ttft_s, seen.completion_tokens) == ("ok", None, 2)


def test_no_answer_at_all() -> None:
    seen = StreamMeter(status=None, started_s=5.0).finish(6.0, reason="connection refused")
    assert (seen.outcome, seen.reason, seen.status, seen.end_s) == ("failed", "connection refused", None, 1.0)


def test_half_a_surrogate_pair_is_text() -> None:
    body = b'data: {"choices": [{"index": 0, "text": "\\ud83d", "finish_reason": "length"}]}\n\n'
    seen = measure([(1.0, body)], status=200, started_s=0.0)
    assert (seen.outcome, seen.text, seen.ttft_s) == ("ok", "\ud83d", 1.0)


@pytest.mark.parametrize("count", [None, "12", -1, 1.5, True])
def test_a_count_that_is_no_count_is_unknown(count: object) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": count}}
    seen = measure([(1.0, delta(content="a") + chunk(usage=usage) + DONE)], status=200, started_s=0.0)
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cached_tokens) == (None, None, None)


def token_event(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None, **more}
    values = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(values, ensure_ascii=False).encode() + b"\n\n"


odd_texts = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ['"', "\\", '", "x": "', "\\u0041", "\n", "\t", "\x7f", "\u2028", "é", "🙂", "", " ", '"}'] * 2
    ),
)


@given(st.lists(st.tuples(odd_texts, st.booleans()), min_size=1, max_size=12), st.data())
def test_events_known_by_their_bytes_bring_what_parsing_them_brings(texts: list[Any], data: Any) -> None:
    body = b"".join(token_event(text, **({"logprobs": [text]} if odd else {})) for text, odd in texts)
    body += b"data: [DONE]\n\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    pieces = [body[start:end] for start, end in itertools.pairwise([0, *cuts, len(body)])]
    seen = measure([(float(at_s), piece) for at_s, piece in enumerate(pieces)], status=200, started_s=0.0)
    assert seen.text == "".join(text for text, _ in texts)
    assert seen.content_events == sum(text != "" for text, _ in texts)


@pytest.mark.parametrize("key", ["text", "content"])
def test_an_event_with_the_key_in_its_text_is_parsed(key: str) -> None:
    known = token_event("plain") + token_event(f'"{key}": "x"') + token_event("plain", finish_reason="stop")
    seen = measure([(1.0, known)], status=200, started_s=0.0)
    assert (seen.text, seen.outcome) == (f'plain"{key}": "x"plain', "ok")
