"""The scheduler, step by step (block size 16)."""

import pytest

from hitcurve_simulator.vllm import (
    Admission,
    CacheManager,
    FinishedRequest,
    Request,
    RequestRejected,
    ScheduledWork,
    Scheduler,
    SchedulerSettings,
    StepOutcome,
    rules_of_version,
)

PROMPT = tuple(range(69))


def scheduler(num_blocks: int | None = None, version: str = "0.32.0", **settings: object) -> Scheduler:
    manager = CacheManager(num_blocks, 16, rules_of_version(version))
    return Scheduler(manager, SchedulerSettings(**settings))  # type: ignore[arg-type]


def run(engine: Scheduler) -> list[StepOutcome]:
    steps = []
    while engine.has_requests:
        assert len(steps) < 1000, "does not end"
        steps.append(engine.step())
    return steps


def test_equal_prompts_admitted_in_one_step_hit_each_other() -> None:
    engine = scheduler()
    engine.add(Request("first", PROMPT, max_output_tokens=2))
    engine.add(Request("second", PROMPT, max_output_tokens=1))
    step = engine.step()
    assert step.admitted == (Admission("first", 69, 0), Admission("second", 69, 64))
    assert step.work == (ScheduledWork("first", "prefill", 69, 0), ScheduledWork("second", "prefill", 5, 64))
    assert step.prefilled == ("first", "second")
    assert step.finished == (FinishedRequest("second", "length", 69, 1, 64),)
    assert (step.running, step.waiting) == (1, 0)
    last = engine.step()
    assert last.work == (ScheduledWork("first", "decode", 1, 69),)
    assert [(token.request_id, token.index) for token in last.new_tokens] == [("first", 1)]
    assert last.finished == (FinishedRequest("first", "length", 69, 2, 0),)
    assert engine.manager.pool.num_used == 0
    assert engine.step().idle


def test_long_prompts_are_computed_in_chunks_of_the_budget() -> None:
    engine = scheduler(max_num_batched_tokens=32)
    engine.add(Request("long", PROMPT, max_output_tokens=2))
    engine.add(Request("short", tuple(range(500, 510)), max_output_tokens=1))
    steps = run(engine)
    assert [[(work.request_id, work.tokens) for work in step.work] for step in steps] == [
        [("long", 32)],
        [("long", 32)],
        [("long", 5), ("short", 10)],
        [("long", 1)],
    ]
    assert [step.prefilled for step in steps] == [(), (), ("long", "short"), ()]
    assert [step.prefill_tokens for step in steps] == [32, 32, 15, 0]
    assert [step.decode_tokens for step in steps] == [0, 0, 0, 1]


def test_without_chunks_a_prompt_waits_for_a_step_of_its_own() -> None:
    engine = scheduler(max_num_batched_tokens=80, enable_chunked_prefill=False)
    engine.add(Request("first", PROMPT))
    engine.add(Request("second", tuple(range(500, 569))))
    assert [[work.request_id for work in step.work] for step in run(engine)] == [["first"], ["second"]]
    with pytest.raises(RequestRejected, match="chunked prefill is off"):
        engine.add(Request("never", tuple(range(81))))


def test_decode_takes_a_block_when_the_last_one_is_full_and_caches_it() -> None:
    engine = scheduler(max_num_batched_tokens=64)
    state = engine.add(Request("r", tuple(range(30)), max_output_tokens=20))
    held = []
    while engine.has_requests:
        engine.step()
        held.append((state.num_tokens, len(state.blocks)))
    # A token is generated in one step and gets its slot in the next, so block 3 comes with token 34.
    assert held[1:5] == [(32, 2), (33, 2), (34, 3), (35, 3)]
    assert engine.manager.pool.num_cached_keys == 3
    follow_up = engine.add(Request("next", (*range(30), *state.output_token_ids, 1)))
    engine.step()
    assert follow_up.hit_tokens == 48


def test_the_last_running_request_is_preempted_and_finds_its_own_blocks_again() -> None:
    engine = scheduler(num_blocks=11)
    for name in ("first", "second"):
        start = 0 if name == "first" else 1000
        engine.add(Request(name, tuple(range(start, start + 79)), max_output_tokens=20))
    steps = run(engine)
    preempting = [step for step in steps if step.preempted]
    assert [step.preempted for step in preempting] == [("second",)]
    assert preempting[0].admitted == ()
    resumed = [admission for step in steps for admission in step.admitted if admission.resumed]
    # The first request took blocks 5 and 4 of its chain meanwhile, tail first; 3 of 16 tokens are left.
    assert resumed == [Admission("second", 81, 48, resumed=True)]
    assert {finished.request_id: finished.output_tokens for step in steps for finished in step.finished} == {
        "first": 20,
        "second": 20,
    }
    assert engine.preemptions == 1
    statistics = engine.manager.statistics
    assert (statistics.requests, statistics.queries, statistics.hits) == (2, 158, 0)
    assert (statistics.preempted_requests, statistics.preempted_queries) == (1, 81)


def test_at_most_max_num_seqs_run() -> None:
    engine = scheduler(max_num_seqs=2)
    for number in range(5):
        engine.add(Request(f"r{number}", (number,) * 10, max_output_tokens=3))
    steps = run(engine)
    assert max(len(step.work) for step in steps) == 2
    assert [a.request_id for step in steps for a in step.admitted] == ["r0", "r1", "r2", "r3", "r4"]


def test_a_request_whose_adapter_finds_no_room_is_overtaken() -> None:
    engine = scheduler(max_adapters=1)
    engine.add(Request("a1", (1,) * 10, max_output_tokens=2, adapter="a"))
    engine.add(Request("b1", (2,) * 10, adapter="b"))
    engine.add(Request("base", (3,) * 10))
    engine.add(Request("a2", (4,) * 10, adapter="a"))
    step = engine.step()
    assert [a.request_id for a in step.admitted] == ["a1", "base", "a2"]
    assert step.adapters_deferred == ("b",)
    assert [state.request_id for state in engine.waiting] == ["b1"]
    assert [a.request_id for later in run(engine) for a in later.admitted] == ["b1"]


@pytest.mark.parametrize("steps_before", [0, 1, 3])
def test_an_abort_frees_everything_but_keeps_what_is_cached(steps_before: int) -> None:
    engine = scheduler(num_blocks=11)
    engine.add(Request("r", PROMPT, max_output_tokens=50))
    for _ in range(steps_before):
        engine.step()
    finished = engine.finish("r")
    assert finished is not None
    assert (finished.reason, finished.output_tokens) == ("abort", steps_before)
    assert finished.hit_tokens == (0 if steps_before else None)
    assert not engine.has_requests
    assert engine.manager.pool.num_used == 0
    assert engine.manager.pool.num_cached_keys == (4 if steps_before else 0)
    assert engine.finish("r") is None


def test_reset_is_refused_while_a_request_runs_or_preempts_it_first() -> None:
    engine = scheduler()
    for name in ("first", "second"):
        engine.add(Request(name, PROMPT, max_output_tokens=5))
    engine.step()
    assert not engine.reset_prefix_cache()
    assert engine.reset_prefix_cache(preempt_running=True)
    assert [state.request_id for state in engine.waiting] == ["first", "second"]
    assert engine.step().admitted == (
        Admission("first", 70, 0, resumed=True),
        Admission("second", 70, 64, resumed=True),
    )


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request("r", ()), "the prompt is empty"),
        (Request("r", (1,), max_output_tokens=0), "at least one output token must be asked for"),
        (Request("r", tuple(range(80))), "needs 5 blocks, pool has 3"),
        (Request("r", tuple(range(48)), max_output_tokens=2), "needs 4 blocks, pool has 3"),
        (Request("r", tuple(range(30)), max_output_tokens=21), "prompt and output are 51 tokens, the longest"),
    ],
)
def test_requests_that_can_never_run_are_rejected_with_the_reason(request_: Request, reason: str) -> None:
    engine = scheduler(num_blocks=4, max_model_len=100 if "blocks" in reason else 50)
    with pytest.raises(RequestRejected, match=reason):
        engine.add(request_)
    engine.add(Request("fits", tuple(range(40))))
    assert run(engine)[-1].finished[0].request_id == "fits"


def test_an_id_in_use_is_refused() -> None:
    engine = scheduler()
    engine.add(Request("r", PROMPT))
    with pytest.raises(ValueError, match="'r' is in use"):
        engine.add(Request("r", PROMPT))


def test_one_block_of_the_pool_is_reserved() -> None:
    engine = scheduler(num_blocks=4)
    assert engine.manager.usable_blocks == 3
    with pytest.raises(RequestRejected, match="needs 4 blocks, pool has 3"):
        engine.add(Request("r", tuple(range(64))))


def test_counters_of_two_prompts_of_33_tokens() -> None:
    engine = scheduler()
    for name in ("first", "second"):
        engine.add(Request(name, tuple(range(33))))
        run(engine)
    assert (engine.manager.statistics.queries, engine.manager.statistics.hits) == (66, 32)
