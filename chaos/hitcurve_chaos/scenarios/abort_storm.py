"""Clients hang up in the middle of their streams: their blocks must come back, every one of them."""

from functools import partial

from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.parameters import Parameter
from hitcurve_chaos.probe import ProbeAnswer
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, fill, kept_share
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.streams import read_stream

__all__ = ["ABORT_STORM"]

_BLOCKS = 6
_SETTLED_S = 10.0
_FILLED = 0.9


def _act(bench: Bench, numbers: Numbers) -> Injection:
    count, tokens = int(bench.settings["requests"]), int(bench.settings["output_tokens"])
    prompts = [bench.probe.new_tokens(_BLOCKS * bench.block_size + 1) for _ in range(count)]
    usage = bench.counters().kv_usage
    ends = bench.probe.ask_all([partial(_hang_up, bench, prompt, tokens) for prompt in prompts], at_once=count)
    numbers["streams_begun"] = sum(end.completed for end in ends)
    # The gauge is renewed by a step: a request has to come before it can be believed (vllm-project/vllm#29928).
    settled = wait_until(lambda: _settled(bench), _SETTLED_S, every_s=0.1)
    numbers["running_left"] = 0 if settled else bench.counters().running
    after = bench.counters().kv_usage
    numbers["usage_left"] = None if usage is None or after is None else max(0.0, after - usage)
    capacity = bench.counters().capacity_tokens
    if capacity:
        filled = fill(bench, int(capacity * _FILLED), bench.checking())
        numbers["pool_share_usable"] = kept_share(bench, filled)
    return applied(f"{count} clients hung up in the middle of their streams")


def _hang_up(bench: Bench, prompt: list[int], tokens: int) -> ProbeAnswer:
    body = {
        "model": bench.target.model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    end = read_stream(bench.target.engine, body, bench.target.headers(), hang_up_after=2)
    return ProbeAnswer(end.events >= 1 and not end.whole, status=end.status, reason=end.reason)


def _settled(bench: Bench) -> bool:
    bench.probe.ask(bench.probe.new_tokens(4))
    found = bench.counters()
    return not found.running and not found.waiting


ABORT_STORM = drill(
    name="abort-storm",
    title="Clients hang up in the middle of streams",
    expected="Nothing runs on, KV usage is as before, and the whole pool can still be filled and found again.",
    act=_act,
    expectations=(
        Expectation("running_left", "requests that still run though their clients are gone", AtMost(0)),
        Expectation("usage_left", "share of the pool that aborted requests still hold", AtMost(0.005)),
        Expectation(
            "pool_share_usable", "of prompts that fill 0.9 of the pool, what is found again", AtLeast(0.95)
        ),
    ),
    conditions=(Expectation("streams_begun", "streams that had begun when their clients left", AtLeast(1)),),
    needs=(*TOKENS, "counters", "fillable_pool"),
    parameters=(
        Parameter("requests", "count", 12, "how many clients hang up", least=1, most=64),
        Parameter("output_tokens", "count", 400, "length of the answers they do not wait for", least=10),
    ),
    story=Story(
        fault="Streams are begun and their connections closed after two events; then the pool is filled.",
        signature="Running falls to 0 and KV usage to where it was; hits of the refilled pool are whole.",
        rollback="None is needed.",
        safety="Pushes every cached prefix out of the pool.",
    ),
)
