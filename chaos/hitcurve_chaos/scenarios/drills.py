"""What drills share: how one is declared, how answers are added up, how the pool is filled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from hitcurve_chaos.calls import NoAnswer
from hitcurve_chaos.capabilities import Need
from hitcurve_chaos.correctness import Correctness
from hitcurve_chaos.faults.adapters import AdapterEndpoints, unload_all
from hitcurve_chaos.faults.drill import NOTHING_LEFT, Drill, Numbers
from hitcurve_chaos.faults.fault import Fault, Injection, Undo
from hitcurve_chaos.faults.reset import read_answer
from hitcurve_chaos.hypothesis import Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.scenario import Bench, Scenario, Spans, Story
from hitcurve_chaos.targets import Target
from hitcurve_chaos.verdict import Number

__all__ = [
    "TOKENS",
    "adapters_left",
    "add_failures",
    "applied",
    "cached_sum",
    "drill",
    "failures",
    "fill",
    "kept_share",
    "p50_s",
    "post_reset",
    "put_adapters_back",
    "rule_tokens",
]

TOKENS: tuple[Need, ...] = ("token_ids", "cached_tokens")
"""What nearly every drill needs."""

_FILLER_TOKENS = 1500
_AT_ONCE = 4
_RESET_TIMEOUT_S = 30.0

Act = Callable[[Bench, Numbers], Injection]


def drill(
    *,
    name: str,
    title: str,
    expected: str,
    act: Act,
    expectations: Sequence[Expectation],
    story: Story,
    needs: Sequence[Need] = TOKENS,
    parameters: Sequence[Parameter] = (),
    conditions: Sequence[Expectation] = (),
    left: Callable[[Bench], Mapping[str, Any]] = lambda bench: NOTHING_LEFT,
    put_back: Callable[[Bench, Mapping[str, Any]], Undo] | None = None,
    remark: Callable[[Mapping[str, Number]], str] = lambda numbers: "",
) -> Scenario:
    """A scenario on an engine without other traffic; ``act`` does it and fills the numbers."""

    def fault(bench: Bench) -> Fault:
        record = left(bench)
        if put_back is None:
            return Drill(partial(act, bench), record)
        return Drill(partial(act, bench), record, partial(put_back, bench, record))

    def own_numbers(bench: Bench, fault: Fault, spans: Spans) -> Mapping[str, Number]:
        assert isinstance(fault, Drill)
        return fault.numbers

    return Scenario(
        name=name,
        title=title,
        expected=expected,
        parameters=parameters,
        named=(),
        single_blow=True,
        fault=fault,
        expectations=lambda settings: expectations,
        story=story,
        conditions=conditions,
        own_numbers=own_numbers,
        remark=remark,
        under_load=False,
        needs=needs,
    )


def applied(sentence: str) -> Injection:
    return Injection("applied", sentence)


def cached_sum(answers: Iterable[ProbeAnswer]) -> int | None:
    """Cached tokens of all answers; ``None`` where one does not tell."""
    cached = [answer.cached_tokens for answer in answers]
    return None if None in cached else sum(value for value in cached if value is not None)


def failures(answers: Iterable[ProbeAnswer]) -> int:
    return sum(not answer.completed for answer in answers)


def add_failures(numbers: Numbers, answers: Iterable[ProbeAnswer]) -> None:
    """Count failures on top of what ``failed`` holds."""
    so_far = numbers.get("failed")
    numbers["failed"] = failures(answers) + (so_far if isinstance(so_far, int) else 0)


def p50_s(answers: Iterable[ProbeAnswer]) -> float | None:
    """Median duration in seconds of the answers that were completed."""
    known = [answer.duration_s for answer in answers if answer.completed and answer.duration_s is not None]
    return median(known) if known else None


def rule_tokens(prompt_tokens: int, block_size: int) -> int:
    """Tokens that a cached prompt is served: its full blocks, without the one that holds its last token."""
    return (prompt_tokens - 1) // block_size * block_size


def fill(bench: Bench, tokens: int, correctness: Correctness | None = None) -> list[list[int]]:
    """Send unique prompts of ``tokens`` tokens in all, some at once; the prompts, in order of sending."""
    block = bench.block_size
    size = max(block, _FILLER_TOKENS // block * block)
    sizes = [size] * (tokens // size) + [tokens % size // block * block]
    prompts = [bench.probe.new_tokens(size) for size in sizes if size]
    answers = bench.probe.ask_all([partial(bench.probe.ask, prompt) for prompt in prompts], at_once=_AT_ONCE)
    found = cached_sum(answers) or 0
    if correctness is not None and found:
        correctness.impossible(found, f"{len(prompts)} unique prompts found {found} tokens cached")
    return prompts


def kept_share(bench: Bench, prompts: Sequence[Sequence[int]]) -> float | None:
    """Of what the prompts could be served from the cache, how much they are; they are asked in order."""
    size = bench.block_size
    cached = cached_sum([bench.probe.ask(prompt) for prompt in prompts])
    due = sum(rule_tokens(len(prompt), size) for prompt in prompts)
    return None if cached is None or not due else cached / due


def post_reset(bench: Bench, target: Target | None = None, *, preempt: bool = False) -> tuple[str, str]:
    """Ask for a reset once; what the answer says (``read_answer``) and the answer in words."""
    one = target or bench.target
    url = one.reset_url(preempt=preempt)
    try:
        answer = bench.transport.send("POST", url, headers=one.admin_headers(), timeout_s=_RESET_TIMEOUT_S)
    except NoAnswer as error:
        return "failed", str(error)
    return read_answer(answer), answer.said


def adapters_left(bench: Bench) -> Mapping[str, Any]:
    """The record of a drill that loads adapters."""
    return {"fault": "adapter_churn", "prefix": bench.fault_prefix}


def put_adapters_back(bench: Bench, record: Mapping[str, Any]) -> Undo:
    """Unload whatever the engine lists under the drill's prefix."""
    return unload_all(AdapterEndpoints(bench.target, bench.transport), str(record["prefix"]))
