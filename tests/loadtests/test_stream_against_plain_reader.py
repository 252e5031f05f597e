"""The quick reader gives what a reader gives that takes every stream line by line and parses every event."""

import itertools
import json
import re
from dataclasses import asdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve_loadtests.stream import measure

PIECES = 8


def plain_reading(pieces: list[tuple[float, bytes]]) -> dict[str, Any]:
    """Times, texts and counts of a stream by the simplest means: each byte has a time, each line is looked at."""
    body = b"".join(data for _, data in pieces)
    ends = list(itertools.accumulate(len(data) for _, data in pieces))
    seen: dict[str, Any] = {"ttft_s": None, "first_content_s": None, "last_token_s": None}
    seen |= {"text": "", "reasoning": "", "content_events": 0, "complete": False, "broken": False}
    seen |= {"prompt_tokens": None, "completion_tokens": None, "cached_tokens": None}
    data: list[bytes] = []
    for line in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n)", body):
        if line[1]:
            field, _, value = line[1].partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))
            continue
        if not data:
            continue
        # A CR ends its line at once, whether or not an LF follows.
        at = line.start(2) + 1
        at_s = next(at_s for (at_s, _), end in zip(pieces, ends, strict=True) if at <= end)
        take(seen, b"\n".join(data), at_s)
        data = []
    return seen


def take(seen: dict[str, Any], data: bytes, at_s: float) -> None:
    if data == b"[DONE]":
        seen["complete"] = True
        return
    try:
        event = json.loads(data)
    except ValueError:
        seen["broken"] = True
        return
    if "error" in event:
        seen["broken"] = True
    if (usage := event.get("usage")) is not None:
        details = usage.get("prompt_tokens_details") or {}
        told = {**usage, "cached_tokens": details.get("cached_tokens")}
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            if told.get(name) is not None:
                seen[name] = told[name]
    brought = [deltas(choice) for choice in event["choices"]]
    for choice, (content, reasoning, _) in zip(event["choices"], brought, strict=True):
        if choice["index"] == 0:
            seen["text"] += content
            seen["reasoning"] += reasoning
        if choice.get("finish_reason"):
            seen["complete"] = True
    if any(any(one) for one in brought):
        seen["content_events"] += 1
        seen["last_token_s"] = at_s
        seen["ttft_s"] = at_s if seen["ttft_s"] is None else seen["ttft_s"]
        if any(content or tools for content, _, tools in brought) and seen["first_content_s"] is None:
            seen["first_content_s"] = at_s


def deltas(choice: dict[str, Any]) -> tuple[str, str, bool]:
    delta = choice.get("delta")
    if delta is None:
        return choice["text"] or "", "", False
    called = any(call.get("function") for call in delta.get("tool_calls") or ())
    return delta.get("content") or "", delta.get("reasoning_content") or "", called


texts = st.one_of(
    *[st.sampled_from(["word ", "and", "x"])] * 6,
    st.text(max_size=6),
    st.sampled_from(
        ['"', "\\", '", "x": "', "\\u0041", "\n", "\r\n\r\n", "\t", "\x7f", "\u2028", "é", "🙂", "", '"}']
    ),
    st.sampled_from(['"text": "', '"content":"', "data: ", "\n\n", "[DONE]", '"finish_reason": "stop"', None]),
)


USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}


def written(values: dict[str, Any], spaced: bool) -> bytes:
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(values, ensure_ascii=False, separators=separators).encode("utf-8", "replace")


def token(text: str | None, chat: bool, **more: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "choices": [{"index": 0, **({"delta": {"content": text}} if chat else {"text": text}), **more}],
    }


@st.composite
def odd_events(draw: Any, chat: bool, spaced: bool) -> bytes:
    """An event that is not only another token of the one choice."""
    kinds = ["reasoning", "tool", "other choice", "two", "usage", "finish", "finish", "error", "junk", "done"]
    kind, text = draw(st.sampled_from(kinds)), draw(texts)
    if kind == "junk":
        return draw(
            st.sampled_from(
                [b"{", b"[DONE", b"{]", b"\xff", written(token("\t", chat), spaced).replace(b"\\t", b"\t")]
            )
        )  # type: ignore[no-any-return]
    if kind == "done":
        return b"[DONE]"
    values = token(text, chat)
    if kind == "reasoning":
        content = draw(st.sampled_from([None, "", "a"]))
        values["choices"][0] = {"index": 0, "delta": {"content": content, "reasoning_content": text}}
    elif kind == "tool":
        calls = draw(st.sampled_from([[], [{"index": 0}], [{"index": 0, "function": {"name": "f"}}]]))
        values["choices"][0] = {"index": 0, "delta": {"content": text, "tool_calls": calls}}
    elif kind == "other choice":
        values["choices"][0]["index"] = 1
    elif kind == "two":
        values["choices"].append({"index": 1, "delta": {"content": draw(texts)}})
    elif kind == "usage":
        values["usage"] = draw(st.sampled_from([None, USAGE, {**USAGE, "prompt_tokens_details": None}]))
        values["choices"] = draw(st.sampled_from([[], values["choices"]]))
    elif kind == "finish":
        values = token(text, chat, finish_reason=draw(st.sampled_from(["stop", "length", None, ""])))
    else:
        values["error"] = {"message": "no"}
    return written(values, spaced)


@st.composite
def streams(draw: Any) -> list[tuple[float, bytes]]:
    """A body in pieces with their times: runs of tokens that look alike, something odd now and then between."""
    chat, spaced = draw(st.booleans()), draw(st.booleans())
    key = "content" if chat else "text"
    usual = draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"]))
    found: list[bytes] = []
    for _ in range(draw(st.integers(1, 4))):
        more = draw(st.sampled_from([{}, {}, {"logprobs": None, "finish_reason": None}]))
        beside = draw(st.sampled_from([[{}]] * 3 + [[{"note": {key: word}} for word in ("word ", "and")]]))
        for text in draw(st.lists(texts, max_size=6)):
            found.append(written({**draw(st.sampled_from(beside)), **token(text, chat, **more)}, spaced))
        found += draw(st.lists(odd_events(chat, spaced), max_size=2))
    body = b""
    for data in found:
        end = draw(st.sampled_from([usual] * 20 + [b"\n", b"\r\n"]))
        noise = draw(st.sampled_from([b""] * 20 + [b": ping" + end + end, b"event: x" + end]))
        body += noise + draw(st.sampled_from([b"data: "] * 20 + [b"data:"])) + data + end + end
    # Of a stream that ends within an event, test_stream.py tells.
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=PIECES)))
    pairs = itertools.pairwise([0, *cuts, len(body)])
    return [(float(number), body[start:stop]) for number, (start, stop) in enumerate(pairs) if start < stop]


@settings(max_examples=300)
@given(streams())
def test_the_quick_reader_measures_what_the_plain_one_does(pieces: list[tuple[float, bytes]]) -> None:
    quick = asdict(measure(pieces, status=200, started_s=0.0))
    plain = plain_reading(pieces)
    complete, broken = plain.pop("complete"), plain.pop("broken")
    assert {name: quick[name] for name in plain} == plain
    assert (quick["outcome"] == "ok") == (
        complete and not broken and bool(plain["content_events"] or plain["completion_tokens"])
    )


def test_bytes_of_a_known_event_within_a_line_are_no_event() -> None:
    known = b"data: " + written(token("word ", True), True) + b"\n\n"
    pieces = [(1.0, known + known), (2.0, b"data: "), (3.0, known), (4.0, b"data: [DONE]\n\n")]
    seen = measure(pieces, status=200, started_s=0.0)
    assert (seen.content_events, seen.text) == (2, "word word ")
    assert seen.reason == "an event of the stream is not JSON"


def test_a_text_that_stands_twice_in_an_event_is_parsed() -> None:
    event = '{"note": {"content": "%s"}, "choices": [{"delta": {"content": "word "}}]}'
    body = "".join(f"data: {event % note}\n\n" for note in ("word ", "and")) + "data: [DONE]\n\n"
    assert measure([(1.0, body.encode())], status=200, started_s=0.0).text == "word word "


def test_a_control_character_in_a_text_is_no_json() -> None:
    first, second = (b'data: {"choices": [{"text": "%s"}]}\n\n' % word for word in (b"word ", b"a\tb"))
    seen = measure([(1.0, first + second + b"data: [DONE]\n\n")], status=200, started_s=0.0)
    assert (seen.text, seen.reason) == ("word ", "an event of the stream is not JSON")
