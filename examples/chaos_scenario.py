"""A chaos scenario of your own: does the second turn of a chat find the first one, the engine's reply included?

python examples/chaos_scenario.py [TARGETS.yaml]      # without a file, on a simulated engine that it starts itself
"""

import sys
import tempfile
from pathlib import Path

from hitcurve_chaos.access import StartSpec
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.opened import opened
from hitcurve_chaos.parameters import resolve
from hitcurve_chaos.runner import run_planned
from hitcurve_chaos.scenarios.drills import applied, drill, rule_tokens
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.targets import Target, load_targets

REPLY_TOKENS = 40


def act(bench: Bench, numbers: Numbers) -> Injection:
    """Ask, and ask again with the reply and a further question behind it."""
    prompt = bench.probe.new_tokens(100)
    first = bench.probe.ask(prompt, max_tokens=REPLY_TOKENS, more={"return_token_ids": True, "ignore_eos": True})
    if first.token_ids is None:
        return Injection("unverified", "the engine does not tell the tokens of its reply")
    second = bench.probe.ask([*prompt, *first.token_ids, *bench.probe.new_tokens(30)])
    # The last token of a reply was never computed, so its place in the cache stays empty.
    due = rule_tokens(len(prompt) + len(first.token_ids), bench.block_size)
    numbers["cached_tokens"] = second.cached_tokens
    if second.cached_tokens is not None:
        numbers["tokens_missing"] = max(0, due - second.cached_tokens)
    return applied(f"a chat of two turns, {due} tokens of the first in full blocks")


SECOND_TURN = drill(
    name="second-turn",
    title="The second turn of a chat finds the first",
    expected="Prompt and reply of the first turn are served from the cache, in full blocks.",
    act=act,
    expectations=(Expectation("tokens_missing", "tokens of the first turn that were computed again", AtMost(0)),),
    conditions=(Expectation("cached_tokens", "cached tokens of the second turn", AtLeast(0)),),
    story=Story(
        fault="A chat of two turns.",
        signature="Misses of reason tail and compulsory only.",
        rollback="None is needed.",
        safety="Two short requests.",
    ),
)


def main(arguments: list[str]) -> int:
    """Run it, print the verdict; 0 only where that is ok."""
    own = Target("own", "http://127.0.0.1:0", "simulated", start=StartSpec())
    target = load_targets(Path(arguments[0]))[0] if arguments else own
    planned = [(SECOND_TURN, resolve(SECOND_TURN.all_parameters(), {}))]
    with tempfile.TemporaryDirectory() as folder, opened(target, Path(folder)) as (ready, drivers):
        results = run_planned(ready, planned, Path(folder) / "run", seed=1, drivers=drivers)
    for verdict in results.verdicts:
        print(f"{verdict.scenario}: {verdict.verdict}. {verdict.seen}", *verdict.problems, sep="\n  ")
    for skipped in results.skipped:
        print(f"{skipped.scenario}: skipped, {skipped.reason}")
    return 0 if results.verdicts and all(verdict.verdict == "ok" for verdict in results.verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
