"""What traffic is meant to share, against a plain comparison of every prompt with every prompt before it."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hitcurve_loadtests.intended import intended
from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts


class Listed:
    """Traffic that is a list."""

    def __init__(self, prompts: list[Prompt]) -> None:
        self._prompts = iter(prompts)

    def next(self) -> Prompt | None:
        return next(self._prompts, None)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        pass


def common(one: str, other: str) -> int:
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


requests = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=12), st.sampled_from([None, "salt"]), st.sampled_from([0, 1])),
    min_size=1,
    max_size=12,
)


@given(requests, st.integers(0, 3), st.integers(1, 4))
def test_shared_is_the_longest_prefix_of_the_same_model_and_salt(
    rows: list[tuple[str, str | None, int]], warm_up: int, block: int
) -> None:
    prompts = [
        Prompt("g", (Message("user", text),), 1, model_rank=rank, cache_salt=salt) for text, salt, rank in rows
    ]
    seen = intended(Listed(prompts), Texts(1), chat=False, requests=99, warm_up=warm_up, block_size=block)
    shared = tokens = blocks = 0
    for place, (text, salt, rank) in enumerate(rows):
        earlier = [one for one, *space in rows[:place] if space == [salt, rank]]
        longest = min(max((common(text, one) for one in earlier), default=0), len(text) - 1)
        if place >= warm_up:
            tokens += len(text)
            shared += longest
            blocks += longest // block * block
    assert (seen.requests, seen.prompt_tokens) == (len(rows), tokens)
    assert seen.shared == (shared / tokens if tokens else None)
    assert seen.ceiling == (blocks / tokens if tokens else None)
