"""Prompts: exact sizes, repeatable from their seed, and shared or not shared as the profile says."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.errors import UsageError
from hitcurve_loadtests.profiles.catalogue import find_profile, profile_names
from hitcurve_loadtests.prompts import Prompt, make_text
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.traffic import Traffic

BLOCK = 16
"""The smallest block of the engines we know, in tokens; one token is one byte here."""


def traffic(name: str, seed: int, worker: int = 0, **sizes: Any) -> Traffic:
    return find_profile(name).with_sizes(sizes).make(Texts(seed, worker))


def take(profile: Traffic, count: int) -> list[Prompt]:
    prompts = []
    for _ in range(count):
        prompt = profile.next()
        assert prompt is not None
        prompts.append(prompt)
    return prompts


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers())
def test_text_has_the_length_asked_for_and_grows_at_its_end(one: int, other: int, name: int) -> None:
    short, long = sorted([one, other])
    text = make_text(long, "seed", name)
    assert len(text.encode("ascii")) == long
    assert text.startswith(make_text(short, "seed", name))


def test_texts_of_other_names_differ_in_their_first_block() -> None:
    firsts = {make_text(BLOCK, seed, "system", group) for seed in range(100) for group in range(100)}
    assert len(firsts) == 100 * 100


def test_lt_12_cold_prompts_of_several_workers_and_runs_share_no_first_block() -> None:
    workers = [
        traffic("unique", seed, worker, prefix_tokens=0, suffix_tokens=64)
        for seed in range(2)
        for worker in range(1, 5)
    ]
    firsts = [prompt.text[:BLOCK] for worker in workers for prompt in take(worker, 100)]
    assert len(set(firsts)) == 8 * 100


def test_workers_share_what_is_meant_to_be_shared_and_nothing_else() -> None:
    sizes = {"groups": 1, "prefix_tokens": 100, "suffix_tokens": 40}
    one, other = (take(traffic("shared-system-prompt", 3, worker, **sizes), 50) for worker in (1, 2))
    assert {prompt.text[:100] for prompt in one} == {prompt.text[:100] for prompt in other}
    assert {prompt.text[100:116] for prompt in one}.isdisjoint(prompt.text[100:116] for prompt in other)


def test_lt_12_a_warm_profile_reaches_the_ratio_asked_for() -> None:
    cached: set[str] = set()
    queries = hits = 0
    for prompt in take(traffic("shared-system-prompt", 1, groups=4, prefix_tokens=192), 1000):
        blocks = [prompt.text[: end + BLOCK] for end in range(0, len(prompt.text), BLOCK)]
        queries += len(prompt.text)
        hits += BLOCK * len(list(itertools.takewhile(cached.__contains__, blocks)))
        cached.update(blocks)
    assert queries == 1000 * 256
    assert hits == (1000 - 4) * 192


@pytest.mark.parametrize("name", profile_names())
def test_a_seed_gives_the_same_prompts_again_and_another_seed_none_of_them(name: str) -> None:
    first, again, other = (take(traffic(name, seed), 30) for seed in (1, 1, 2))
    assert first == again
    assert {prompt.text[:BLOCK] for prompt in first}.isdisjoint(prompt.text[:BLOCK] for prompt in other)


def test_requests_of_a_group_share_their_prefix_and_nothing_after_it() -> None:
    prompts = take(traffic("shared-system-prompt", 3, groups=3, prefix_tokens=100, suffix_tokens=40), 60)
    assert {prompt.group for prompt in prompts} == {"group-0", "group-1", "group-2"}
    assert len({(prompt.group, prompt.text[:100]) for prompt in prompts}) == 3
    assert len({prompt.text[100 : 100 + BLOCK] for prompt in prompts}) == 60


def test_groups_are_asked_evenly_or_after_zipf() -> None:
    def counts(zipf: float) -> list[int]:
        prompts = take(traffic("shared-system-prompt", 5, groups=4, zipf=zipf), 4000)
        return [sum(prompt.group == f"group-{group}" for prompt in prompts) for group in range(4)]

    assert counts(0.0) == pytest.approx([1000] * 4, rel=0.1)
    # Weights 1, 1/2, 1/3, 1/4 add up to 25/12.
    assert counts(1.0) == pytest.approx([4000 * share / 25 for share in (12, 6, 4, 3)], rel=0.1)


def test_a_chat_grows_by_the_replies_of_the_engine() -> None:
    chats = traffic("multi-turn", 1, sessions=1, turns=3, groups=1, prefix_tokens=32, suffix_tokens=20)
    (first,) = take(chats, 1)
    chats.answered(first, "reply one")
    (second,) = take(chats, 1)
    chats.answered(second, "reply two")
    (third,) = take(chats, 1)
    assert [message.role for message in third.messages] == ["system", *["user", "assistant"] * 2, "user"]
    assert [message.text for message in third.messages if message.role == "assistant"] == [
        "reply one",
        "reply two",
    ]
    assert second.text.startswith(first.text + "reply one")
    assert third.text.startswith(second.text + "reply two")
    chats.answered(third, "the end")
    (next_chat,) = take(chats, 1)
    assert (first.session, next_chat.session, len(next_chat.messages)) == (0, 1, 2)


def test_a_chat_whose_request_failed_is_given_up() -> None:
    chats = traffic("multi-turn", 1, sessions=1, turns=3)
    (first,) = take(chats, 1)
    chats.answered(first, None)
    assert take(chats, 1)[0].session == 1


def test_a_slow_engine_does_not_slow_the_chats_down() -> None:
    chats = traffic("multi-turn", 1, sessions=2, turns=3)
    waiting = take(chats, 5)
    assert [prompt.session for prompt in waiting] == [0, 1, 2, 3, 4]
    chats.answered(waiting[3], "at last")
    assert take(chats, 1)[0].session == 3


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        find_profile("multiturn")
    assert str(caught.value) == (
        "there is no load profile 'multiturn'; did you mean 'multi-turn'? "
        f"The profiles are {', '.join(profile_names())}."
    )


def test_a_profile_unlike_all_others_names_none_of_them() -> None:
    with pytest.raises(UsageError) as caught:
        find_profile("nope")
    assert str(caught.value) == (
        f"there is no load profile 'nope'; the profiles are {', '.join(profile_names())}."
    )
