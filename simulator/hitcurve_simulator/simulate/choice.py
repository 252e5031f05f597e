"""Which rules a simulation follows, with options and defaults settled, and the replay that applies them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Literal

from hitcurve.errors import UsageError
from hitcurve_simulator.explicit import LIFETIMES_S, Lifetime, Multipliers
from hitcurve_simulator.sglang import POLICIES, Policy, RadixCache
from hitcurve_simulator.simulate.cache_rules import CacheRules, Replay
from hitcurve_simulator.simulate.explicit_replay import ExplicitReplay, ExplicitSettings
from hitcurve_simulator.simulate.ledger_replay import LedgerReplay
from hitcurve_simulator.simulate.lru_replay import LruReplay
from hitcurve_simulator.simulate.sglang_requests import SglangRequests
from hitcurve_simulator.simulate.trtllm_requests import TrtllmRequests
from hitcurve_simulator.simulate.vllm_group_replay import VllmGroupReplay, VllmGroupSettings
from hitcurve_simulator.simulate.vllm_replay import VllmReplay, VllmReplaySettings, make_vllm_rules
from hitcurve_simulator.simulate.vllm_v0_requests import VllmV0Requests
from hitcurve_simulator.traces import TraceRow
from hitcurve_simulator.trtllm import BlockReuse
from hitcurve_simulator.vllm import DEFAULT_VERSION, CacheObserver, rules_of_version
from hitcurve_simulator.vllm_groups import Attention, read_groups
from hitcurve_simulator.vllm_v0 import BlockManager

__all__ = [
    "RULES",
    "Choice",
    "make_replay",
    "make_rules",
    "refuse_foreign_options",
    "settled_groups",
    "settled_lifetime",
    "settled_policy",
    "settled_prices",
    "settled_version",
    "without_what_does_not_apply",
]

RULES = ("vllm", "vllm-v0", "sglang", "trtllm", "explicit", "lru", "lru-head-first")
FOLLOWED_VERSION = {"vllm-v0": "0.8.5", "sglang": "0.5.22"}
"""The one engine version that rules without a choice follow."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to simulate with which rules. ``version`` is None for rules that follow no engine."""

    rules: str
    version: str | None
    block_size: int
    pool_blocks: int | None
    concurrency: int
    outputs: bool
    policy: Policy = "lru"
    minimum_tokens: int = 1024
    lifetime: Lifetime = "5m"
    prices: Multipliers | None = None
    groups: tuple[Attention, ...] = ()
    """Groups of attention, where the rules are vLLM's and the model has several or a window."""


def settled_groups(rules: str, text: str | None) -> tuple[Attention, ...]:
    """Groups such as ``full:32,128:16``. Raises UsageError for what is none, and for rules without groups."""
    if text is None:
        return ()
    if rules != "vllm":
        raise UsageError(f"--groups is for the rules 'vllm'; the rules '{rules}' know none, leave it out.")
    try:
        return tuple(read_groups(text))
    except ValueError as error:
        raise UsageError(f"--groups: {error}.") from None


def settled_version(rules: str, version: str | None) -> str | None:
    """The version that applies. Raises UsageError for unknown rules and versions they do not follow."""
    if rules not in RULES:
        raise UsageError(f"there are no rules '{rules}'; the rules are {', '.join(RULES)}.")
    if rules == "vllm":
        try:
            return rules_of_version(version or DEFAULT_VERSION).version
        except ValueError as error:
            raise UsageError(f"--version: {error}.") from None
    followed = FOLLOWED_VERSION.get(rules)
    if version is not None and version != followed:
        follow = f"follow version {followed} only" if followed else "follow no engine"
        raise UsageError(f"--version is '{version}', but the rules '{rules}' {follow}; leave it out.")
    return followed


def settled_policy(rules: str, policy: str | None) -> Policy:
    """The eviction policy that applies. Raises UsageError for one that the rules do not have."""
    if policy is not None and rules != "sglang":
        raise UsageError(f"--policy is for the rules 'sglang'; the rules '{rules}' have one policy, leave it out.")
    for known in POLICIES:
        if known == (policy or "lru"):
            return known
    raise UsageError(f"--policy is '{policy}'; give one of {', '.join(POLICIES)}.")


def settled_lifetime(text: str | None) -> Lifetime:
    """Raises UsageError for a lifetime that does not exist."""
    for known in LIFETIMES_S:
        if known == ("5m" if text is None else text):
            return known
    raise UsageError(f"--lifetime is '{text}'; give {' or '.join(LIFETIMES_S)}.")


def settled_prices(text: str | None) -> Multipliers | None:
    """``WRITE,READ`` or ``WRITE5M,WRITE1H,READ`` as multiples of a plain input token. Raises UsageError."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(0 <= number < 1e6 for number in numbers):
        raise UsageError(f"--prices is '{text}'; give multiples of a plain input token such as 1.25,2,0.1.")
    return Multipliers(numbers[0], numbers[-2], numbers[-1])


def refuse_foreign_options(rules: str, of_explicit: Mapping[str, object]) -> None:
    """Raises UsageError where an option of the rules 'explicit' is given for others."""
    given = [option for option, value in of_explicit.items() if value is not None]
    if given and rules != "explicit":
        raise UsageError(
            f"{given[0]} is for the rules 'explicit'; the rules '{rules}' do not know it, leave it out."
        )


def without_what_does_not_apply(choice: Choice, given: Mapping[str, object]) -> tuple[Choice, list[str]]:
    """The choice without settings that its rules do not have, and which of the options ``given`` those are."""
    if choice.rules == "explicit":
        settled, idle = replace(choice, pool_blocks=None, concurrency=1, outputs=False), tuple(given)
    elif choice.rules in ("lru", "lru-head-first"):
        settled = replace(choice, concurrency=1, outputs=False)
        idle = ("--concurrency", "--outputs")
    else:
        return choice, []
    return settled, [option for option in idle if given[option]]


def make_replay(choice: Choice, rows: Sequence[TraceRow]) -> Replay:
    """A replay of these rows; used once."""
    if choice.rules in ("lru", "lru-head-first"):
        refresh: Literal["tail_first", "head_first"] = "tail_first" if choice.rules == "lru" else "head_first"
        return LruReplay(choice.block_size, choice.pool_blocks, refresh)
    if choice.rules == "explicit":
        settings = ExplicitSettings(choice.block_size, choice.minimum_tokens, choice.lifetime, choice.prices)
        return ExplicitReplay(settings)
    if choice.groups:
        return _group_replay(choice)
    isolating = any(row.request.adapter or row.request.cache_salt or row.request.extra_key for row in rows)
    if choice.rules == "vllm":
        return VllmReplay(_vllm_settings(choice), isolating)
    return LedgerReplay(
        lambda observer: make_rules(choice, observer),
        choice.block_size,
        choice.pool_blocks,
        choice.concurrency,
        choice.outputs,
        isolating,
    )


def make_rules(choice: Choice, observer: CacheObserver) -> CacheRules:
    """The rules of an engine, which tell ``observer`` what happens; used for one replay."""
    if choice.rules == "vllm":
        return make_vllm_rules(_vllm_settings(choice), observer)
    if choice.rules == "vllm-v0":
        # No watermark: a request gets all its room at once here.
        manager = BlockManager(choice.pool_blocks, choice.block_size, watermark=0.0, observer=observer)
        return VllmV0Requests(manager, choice.outputs)
    if choice.rules == "trtllm":
        return TrtllmRequests(BlockReuse(choice.pool_blocks, choice.block_size, observer), choice.outputs)
    cache = RadixCache(choice.pool_blocks, choice.block_size, choice.policy, observer=observer)
    return SglangRequests(cache, choice.outputs)


def _group_replay(choice: Choice) -> Replay:
    key_size = gcd(*(attention.block_size for attention in choice.groups))
    if key_size != choice.block_size:
        raise UsageError(
            f"--groups has blocks that share {key_size} tokens and the trace has blocks of {choice.block_size}; "
            "give groups and a --block-size that fit."
        )
    rules = rules_of_version(choice.version or DEFAULT_VERSION)
    settings = VllmGroupSettings(rules, choice.groups, choice.pool_blocks, choice.concurrency, choice.outputs)
    try:
        return VllmGroupReplay(settings)
    except ValueError as error:
        raise UsageError(f"--groups: {error}.") from None


def _vllm_settings(choice: Choice) -> VllmReplaySettings:
    return VllmReplaySettings(
        rules=rules_of_version(choice.version or DEFAULT_VERSION),
        block_size=choice.block_size,
        pool_blocks=choice.pool_blocks,
        concurrency=choice.concurrency,
        outputs=choice.outputs,
    )
