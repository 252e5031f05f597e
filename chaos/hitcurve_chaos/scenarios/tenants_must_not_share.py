"""One prompt, many tenants: no salt, other salts, and each adapter; none may find what another has cached."""

from hitcurve_chaos.calls import NoAnswer
from hitcurve_chaos.faults.adapters import AdapterEndpoints
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import TOKENS, adapters_left, applied, cached_sum, drill, put_adapters_back
from hitcurve_chaos.scenarios.scenario import Bench, Story

__all__ = ["TENANTS_MUST_NOT_SHARE"]

_BLOCKS = 4
_SALTS = 2


def _act(bench: Bench, numbers: Numbers) -> Injection:
    checking = bench.checking()
    prompt = bench.probe.new_tokens(_BLOCKS * bench.block_size + 1)
    models: list[str | None] = [None, *_adapters(bench)]
    salts: list[str | None] = [None, *(checking.new_salt() for _ in range(_SALTS))]
    firsts, seconds = [], []
    for model in models:
        for salt in salts:
            first = checking.first_ever(
                prompt, f"tenant {model or 'base'}/{salt or 'no salt'}", model=model, salt=salt
            )
            second = checking.ask(prompt, model=model, salt=salt)
            checking.same(second, first, f"the own prompt of tenant {model or 'base'}")
            firsts.append(first)
            seconds.append(second)
    numbers["tenants"] = len(firsts)
    numbers["adapters"] = len(models) - 1
    numbers["shared_tokens"] = cached_sum(firsts)
    numbers["tenants_without_own_hits"] = sum(not second.cached_tokens for second in seconds)
    return applied(f"{len(firsts)} tenants sent the same prompt")


def _adapters(bench: Bench) -> list[str]:
    """Adapters that could be loaded, two at most; salts alone are worth the drill as well."""
    endpoints, loaded = AdapterEndpoints(bench.target, bench.transport), []
    for number, adapter in enumerate(bench.target.adapters[:2]):
        name = f"{bench.fault_prefix}{number}"
        try:
            if endpoints.load(name, adapter.path).status == 200:
                loaded.append(name)
        except NoAnswer:
            break
    return loaded


TENANTS_MUST_NOT_SHARE = drill(
    name="tenants-must-not-share",
    title="Tenants must not share",
    expected="Every tenant's first request finds nothing and its second all of its own; all answers are right.",
    act=_act,
    expectations=(
        Expectation("shared_tokens", "tokens that one tenant found of another", AtMost(0)),
        Expectation("tenants_without_own_hits", "tenants that did not find their own prompt", AtMost(0)),
    ),
    conditions=(Expectation("tenants", "tenants that were tried", AtLeast(2)),),
    needs=(*TOKENS, "salts"),
    left=adapters_left,
    put_back=put_adapters_back,
    story=Story(
        fault="The same prompt is sent without a salt, under salts, and to adapters, each for the first time.",
        signature="First requests miss wholly (isolated), second ones hit.",
        rollback="Adapters that were loaded for it are unloaded.",
        safety="A dozen short requests and at most two adapter slots.",
    ),
)
