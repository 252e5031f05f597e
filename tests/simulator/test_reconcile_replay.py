"""The replay by times against the replay in file order, which knows no times."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hitcurve_simulator.reconcile.timed_replay import Fate, Visit, replay_visits
from hitcurve_simulator.simulate.choice import Choice, make_replay, make_rules
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.vllm import Request

BLOCK = 4

rows = st.lists(
    st.builds(
        lambda tokens, adapter, output: (tokens, adapter, output),
        st.lists(st.integers(0, 1), min_size=1, max_size=17),
        st.sampled_from([None, "a"]),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=20,
)


def trace_rows(drawn: list[tuple[list[int], str | None, int]]) -> list[TraceRow]:
    return [
        TraceRow(
            line=line,
            request=Request(f"r{line}", tokens, max_output_tokens=max(output, 1), adapter=adapter),
            output_tokens=output,
        )
        for line, (tokens, adapter, output) in enumerate(drawn, 1)
    ]


@given(
    rows,
    st.sampled_from([("vllm", "0.32.0"), ("vllm", "0.8.5"), ("vllm-v0", "0.8.5"), ("sglang", "0.5.22")]),
    st.integers(3, 12),
    st.integers(1, 4),
)
def test_the_same_number_at_once_gives_the_same_hits(
    drawn: list[tuple[list[int], str | None, int]], engine: tuple[str, str], pool: int, at_once: int
) -> None:
    traffic = trace_rows(drawn)
    rules, version = engine
    choice = Choice(rules, version, BLOCK, pool, concurrency=at_once, outputs=True)
    served = make_replay(choice, traffic).run(traffic)
    fitting = {request.row.line for request in served.served}
    visits = [
        Visit(row, float(start), float(start + at_once))
        for start, row in enumerate(row for row in traffic if row.line in fitting)
    ]
    fates = replay_visits(visits, lambda observer: make_rules(choice, observer), BLOCK, pool)
    assert [fate.hit for fate in fates if isinstance(fate, Fate)] == [one.hit_tokens for one in served.served]
    for reason, tokens in served.miss_tokens.items():
        assert sum(dict(fate.misses).get(reason, 0) for fate in fates if isinstance(fate, Fate)) == tokens  # type: ignore[call-overload]


def test_who_is_inside_keeps_its_blocks() -> None:
    first, second, third = trace_rows([([1] * 9, None, 0), ([0] * 9, None, 0), ([0, 1] * 4 + [0], None, 0)])
    again = replace(first, request=replace(first.request, request_id="again"))
    choice = Choice("vllm", "0.32.0", BLOCK, 6, concurrency=1, outputs=True)

    def hits(first_leaves_s: float) -> list[int | None]:
        visits = [
            Visit(first, 0.0, first_leaves_s),
            Visit(second, 1.0, 2.0),
            Visit(third, 3.0, 4.0),
            Visit(again, 5.0, 6.0),
        ]
        fates = replay_visits(visits, lambda observer: make_rules(choice, observer), BLOCK, 6)
        return [fate.hit for fate in fates if isinstance(fate, Fate)]

    assert hits(first_leaves_s=0.5) == [0, 0, 0, 4]
    assert hits(first_leaves_s=4.5) == [0, 0, 0, 8]


def test_what_fits_in_no_pool_says_so() -> None:
    (row,) = trace_rows([([1] * 17, None, 0)])
    choice = Choice("vllm", "0.32.0", BLOCK, 3, concurrency=1, outputs=True)
    fates = replay_visits([Visit(row, 0.0, 1.0)], lambda observer: make_rules(choice, observer), BLOCK, 3)
    assert fates == ["needs 5 blocks, pool has 3"]
