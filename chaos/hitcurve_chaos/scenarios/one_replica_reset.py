"""A reset reaches the replica it is sent to, and no other; and a fleet is reset only when all of it is."""

from functools import partial

from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation, OneOf
from hitcurve_chaos.scenarios.drills import TOKENS, applied, drill, post_reset
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["ONE_REPLICA_RESET"]

_BLOCKS = 4


def _act(bench: Bench, numbers: Numbers) -> Injection:
    replicas = [bench.target, *bench.target.replicas]
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    ask = [partial(bench.probe.ask, prompt, engine=replica.engine) for replica in replicas]
    before = [bench.counters(replica).queries for replica in replicas]
    warm = [(one(), one())[1].cached_tokens or 0 for one in ask]
    after = [bench.counters(replica).queries for replica in replicas]
    numbers["replicas_warm"] = sum(cached > 0 for cached in warm)
    moved = [b - a for a, b in zip(before, after, strict=True) if a is not None and b is not None]
    numbers["counters_of_others"] = sum(abs(moved_by - 2 * len(prompt)) for moved_by in moved)
    meaning, said = post_reset(bench)
    if meaning not in ("applied", "unverified"):
        return Injection("refused", f"the replica refused the reset ({said})")
    reached = [one().cached_tokens == 0 for one in ask]
    numbers["reset_reached"] = f"{sum(reached)}/{len(replicas)}"
    numbers["one_address_word"] = "applied" if all(reached) else "partial"
    numbers["others_still_cached"] = sum(not gone for gone in reached[1:])
    for one in ask:
        one()
    for replica in replicas:
        post_reset(bench, replica)
    numbers["fan_out"] = sum(one().cached_tokens == 0 for one in ask)
    numbers["replicas"] = len(replicas)
    numbers["fan_out_word"] = "applied" if numbers["fan_out"] == len(replicas) else "partial"
    return applied(f"one of {len(replicas)} replicas was reset, then all ({numbers['fan_out']}/{len(replicas)})")


ONE_REPLICA_RESET = drill(
    name="one-replica-reset",
    title="Reset on one replica of several",
    expected="The replica that was reset is cold and the others are not; a reset sent to each reaches every one.",
    act=_act,
    expectations=(
        Expectation("others_still_cached", "other replicas that kept their cache", AtLeast(1)),
        Expectation("fan_out_word", "a reset sent to every replica is", OneOf(("applied",))),
        Expectation("counters_of_others", "query tokens a replica counted that it was not sent", AtMost(0)),
    ),
    conditions=(Expectation("replicas_warm", "replicas that had the prompt cached", AtLeast(2)),),
    needs=(*TOKENS, "reset", "replicas"),
    story=Story(
        fault="A prompt is cached on every replica, one is reset, later all.",
        signature="One curve collapses (cause reset) while the others are steady: replica skew.",
        rollback="None is needed.",
        safety="Every replica's cache is emptied in the end.",
    ),
)
