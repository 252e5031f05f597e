"""What a probe makes of an answer, whatever a server sends."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve_chaos.calls import Answer
from hitcurve_chaos.probe import ProbeAnswer, read_answer

GOOD: dict[str, Any] = {
    "choices": [
        {
            "text": "ab",
            "token_ids": [5, 6],
            "logprobs": {"top_logprobs": [{"a": -0.5, "b": -2.0}, {"b": -0.25}]},
        }
    ],
    "usage": {"prompt_tokens": 20, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
PLACES: list[tuple[Any, ...]] = [
    (),
    ("choices",),
    ("choices", 0),
    ("choices", 0, "text"),
    ("choices", 0, "token_ids"),
    ("choices", 0, "token_ids", 1),
    ("choices", 0, "logprobs"),
    ("choices", 0, "logprobs", "top_logprobs"),
    ("choices", 0, "logprobs", "top_logprobs", 0),
    ("choices", 0, "logprobs", "top_logprobs", 0, "a"),
    ("usage",),
    ("usage", "prompt_tokens"),
    ("usage", "prompt_tokens_details"),
    ("usage", "prompt_tokens_details", "cached_tokens"),
]


def exchanged(place: tuple[Any, ...], value: Any) -> Any:
    """The good answer with another value at one place."""
    if not place:
        return value
    whole = json.loads(json.dumps(GOOD))
    inner = whole
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return whole


def read(values: Any, status: int = 200) -> ProbeAnswer:
    return read_answer(Answer(status, json.dumps(values)), 0.5)


def test_a_good_answer_is_read_whole() -> None:
    assert read(GOOD) == ProbeAnswer(True, 16, 20, 2, 200, None, "ab", (5, 6), (1.5, None), 0.5)


@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_at_a_place_is_known_or_unknown_and_never_an_error(
    place: tuple[Any, ...], value: Any
) -> None:
    answer = read(exchanged(place, value))
    for number in (answer.cached_tokens, answer.prompt_tokens, answer.completion_tokens):
        assert number is None or (type(number) is int and number >= 0)
    assert answer.text is None or isinstance(answer.text, str)
    assert answer.token_ids is None or all(type(one) is int for one in answer.token_ids)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((), None),
        ((), [1]),
        (("choices",), []),
        (("choices",), "x"),
        (("choices", 0), None),
        (("choices",), {"0": 1}),
    ],
)
def test_an_answer_without_a_choice_is_no_completion(place: tuple[Any, ...], value: Any) -> None:
    answer = read(exchanged(place, value))
    assert not answer.completed
    assert answer.reason is not None
    assert answer.reason.startswith("200 ")


def test_a_status_other_than_200_is_no_completion() -> None:
    assert read(GOOD, 503) == ProbeAnswer(False, status=503, reason=f"503 {json.dumps(GOOD)[:200]}")


@pytest.mark.parametrize("value", [None, True, -1, "7", 7.5, [7]])
def test_a_count_that_is_none_is_unknown_and_never_zero(value: Any) -> None:
    found = read(exchanged(("usage", "prompt_tokens_details", "cached_tokens"), value))
    assert (found.completed, found.cached_tokens, found.prompt_tokens) == (True, None, 20)
