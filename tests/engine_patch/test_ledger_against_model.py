"""The ledger against a naive model that replays the whole history of the cache for every single token."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hitcurve_engine.ledger import MISS_REASONS, Eviction, Ledger, Outcome, Regret

BLOCK_SIZE = 3
Key = tuple[Hashable, ...]
Isolation = tuple[str | None, str | None, str | None]

# Two families with a common beginning, cut anywhere: prompts that share much, as blocks must to be told apart.
prompts = st.builds(
    lambda family, length: ((0,) * 7 + (family,) * 9)[:length], st.integers(0, 1), st.integers(0, 16)
)
isolations: st.SearchStrategy[Isolation] = st.tuples(
    st.sampled_from([None, "sql"]), st.sampled_from([None, "tenant"]), st.sampled_from([None, "image"])
)


@dataclass
class NaiveCache:
    """Every event since the beginning; answers by reading all of them again."""

    history: list[tuple[str, Key]] = field(default_factory=list)

    def copies(self) -> Counter[Key]:
        left: Counter[Key] = Counter()
        for event, key in self.history:
            if event == "store":
                left[key] += 1
            elif event == "evict":
                left[key] -= 1
            else:
                left.clear()
        return +left

    def last_fate(self, key: Key) -> str | None:
        """How the key last went: evict, reset, or None where it never was cached."""
        left, fate = 0, None
        for event, other in self.history:
            if event == "reset":
                if left:
                    fate = "reset"
                left = 0
            elif other == key:
                left += 1 if event == "store" else -1
                if event == "evict" and not left:
                    fate = "evict"
        return fate

    def cached_longest(self, keys: list[Key]) -> Key:
        """That of some cached keys whose present life began first."""
        born: dict[Key, int] = {}
        left: Counter[Key] = Counter()
        for moment, (event, key) in enumerate(self.history):
            if event == "reset":
                left.clear()
            elif event == "store":
                if not left[key]:
                    born[key] = moment
                left[key] += 1
            else:
                left[key] -= 1
        return min(keys, key=lambda key: born[key])


def keys_of(prompt: tuple[int, ...], isolation: Isolation) -> list[Key]:
    return [(prompt[:end], isolation) for end in range(BLOCK_SIZE, len(prompt) + 1, BLOCK_SIZE)]


def expected_reasons(
    cache: NaiveCache, prompt: tuple[int, ...], isolation: Isolation, hit_tokens: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Reason by reason, token by token."""
    reasons = dict.fromkeys(MISS_REASONS, 0)
    kinds: Counter[str] = Counter()
    keys = keys_of(prompt, isolation)
    copies = cache.copies()
    for token in range(hit_tokens, len(prompt)):
        if token >= (len(prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE:
            reasons["tail"] += 1
            continue
        block = token // BLOCK_SIZE
        if copies[keys[block]]:
            before = keys[hit_tokens // BLOCK_SIZE : block]
            reasons["tail" if all(copies[key] for key in before) else "stranded"] += 1
            continue
        fate = cache.last_fate(keys[block])
        twins = [key for key in copies if key[0] == keys[block][0]]
        if fate is not None:
            reasons["capacity" if fate == "evict" else "reset"] += 1
        elif twins:
            reasons["isolated"] += 1
            other = cache.cached_longest(twins)[1]
            assert isinstance(other, tuple)
            differs = [mine != theirs for mine, theirs in zip(isolation, other, strict=True)]
            kinds[("adapter", "salt", "image")[differs.index(True)]] += 1
        else:
            reasons["compulsory"] += 1
    return reasons, dict(kinds)


@dataclass
class Traffic:
    """One request of the machine, with what the model says of the lookup that counts."""

    name: str
    prompt: tuple[int, ...]
    isolation: Isolation
    counted: bool = False
    lookups: int = 0
    hit_tokens: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    recomputed: Counter[str] = field(default_factory=Counter)


class LedgerMachine(RuleBasedStateMachine):
    """Requests, evictions of any block, duplicates, preemptions and resets at random, fed to ledger and model."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = NaiveCache()
        self.outcomes: list[Outcome] = []
        self.evictions: list[Eviction] = []
        self.regrets: list[Regret] = []
        self.ledger = Ledger(
            BLOCK_SIZE,
            pool_blocks=100_000,
            withheld_blocks=1,
            on_outcome=self.outcomes.append,
            on_eviction=self.evictions.append,
            on_regret=self.regrets.append,
        )
        self.now_s = 0.0
        self.arrived = 0
        self.waiting: list[Traffic] = []
        self.running: list[Traffic] = []
        self.sums: Counter[str] = Counter()

    def tick(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def look_up(self, request: Traffic, withhold: bool, inside: bool) -> None:
        """The engine's answer: the cached run without the last token, perhaps less one block or one token."""
        keys = keys_of(request.prompt, request.isolation)
        copies = self.cache.copies()
        run = next((place for place, key in enumerate(keys) if not copies[key]), len(keys))
        hit = min(run, max(len(request.prompt) - 1, 0) // BLOCK_SIZE) * BLOCK_SIZE
        hit = max(hit - (BLOCK_SIZE if withhold else inside), 0)
        contents = [key[0] for key in keys]
        self.ledger.lookup(request.name, self.tick(), len(request.prompt), hit, keys, contents, *request.isolation)
        request.hit_tokens = hit if not request.counted else request.hit_tokens
        self.found = hit
        if not request.counted:
            request.lookups += 1
            request.reasons, request.kinds = expected_reasons(self.cache, request.prompt, request.isolation, hit)

    def evict(self, keys: list[Key], by: str | None) -> None:
        self.ledger.evicted(self.tick(), keys, by)
        self.cache.history.extend(("evict", key) for key in keys)

    @rule(prompt=prompts, isolation=isolations)
    def arrive(self, prompt: tuple[int, ...], isolation: Isolation) -> None:
        self.arrived += 1
        self.waiting.append(Traffic(f"r{self.arrived}", prompt, isolation))

    @precondition(lambda self: self.waiting)
    @rule(pick=st.integers(0), withhold=st.booleans(), inside=st.booleans())
    def look_up_in_vain(self, pick: int, withhold: bool, inside: bool) -> None:
        self.look_up(self.waiting[pick % len(self.waiting)], withhold, inside)

    @precondition(lambda self: self.waiting)
    @rule(
        pick=st.integers(0),
        withhold=st.booleans(),
        inside=st.booleans(),
        victims=st.sets(st.integers(0, 30), max_size=4),
        duplicate=st.booleans(),
    )
    def schedule(self, pick: int, withhold: bool, inside: bool, victims: set[int], duplicate: bool) -> None:
        request = self.waiting.pop(pick % len(self.waiting))
        self.look_up(request, withhold, inside)
        keys = keys_of(request.prompt, request.isolation)
        first_new = -(-self.found // BLOCK_SIZE)
        candidates = sorted(self.cache.copies().keys() - set(keys[:first_new]), key=repr)
        self.evict([candidates[victim] for victim in victims if victim < len(candidates)], request.name)
        copies = self.cache.copies()
        new = [
            (place, key) for place, key in enumerate(keys) if place >= first_new and (duplicate or not copies[key])
        ]
        for place, key in new:
            self.ledger.stored(self.tick(), [key], request.name, place)
            self.cache.history.append(("store", key))
        self.ledger.scheduled(request.name, self.tick())
        if request.counted:
            request.recomputed.update(query=len(request.prompt), hit=self.found)
        else:
            request.counted = True
            self.sums.update(query=len(request.prompt), hit=request.hit_tokens, **request.reasons)
        self.running.append(request)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0))
    def preempt(self, pick: int) -> None:
        request = self.running.pop(pick % len(self.running))
        self.ledger.preempted(request.name, self.tick())
        self.waiting.append(request)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0))
    def finish(self, pick: int) -> None:
        request = self.running.pop(pick % len(self.running))
        self.ledger.finished(request.name, self.tick())
        outcome = self.outcomes.pop()
        assert (outcome.status, outcome.lookups) == ("looked_up", request.lookups)
        assert (outcome.query_tokens, outcome.hit_tokens) == (len(request.prompt), request.hit_tokens)
        assert outcome.miss_tokens == request.reasons
        assert outcome.isolated_by == request.kinds
        assert outcome.hit_tokens + sum(outcome.miss_tokens.values()) == outcome.query_tokens
        assert outcome.recompute_query_tokens == request.recomputed["query"]
        assert outcome.recompute_hit_tokens == request.recomputed["hit"]
        assert outcome.anomalies == ()

    @rule(pick=st.integers(0))
    def evict_any(self, pick: int) -> None:
        candidates = sorted(self.cache.copies(), key=repr)
        if candidates:
            self.evict([candidates[pick % len(candidates)]], None)

    @rule(ok=st.booleans())
    def reset(self, ok: bool) -> None:
        self.ledger.reset(self.tick(), ok)
        if ok:
            self.cache.history.append(("reset", ()))

    @invariant()
    def totals_agree(self) -> None:
        totals = self.ledger.totals
        assert (totals.query_tokens, totals.hit_tokens) == (self.sums["query"], self.sums["hit"])
        assert totals.miss_tokens == {reason: self.sums[reason] for reason in MISS_REASONS}
        assert totals.query_tokens == totals.hit_tokens + sum(totals.miss_tokens.values())
        copies = self.cache.copies()
        assert self.ledger.cached_keys == len(copies)
        assert self.ledger.ghost_keys == len(
            {key for event, key in self.cache.history if event != "reset"} - set(copies)
        )
        assert totals.evicted_blocks == len(self.evictions) == sum(e == "evict" for e, _ in self.cache.history)
        assert totals.regretted_tokens == sum(regret.tokens for regret in self.regrets)
        assert totals.miss_tokens["capacity"] <= totals.regretted_tokens
        assert totals.regretted_tokens <= totals.miss_tokens["capacity"] + totals.miss_tokens["stranded"]
        assert (totals.unknown_evictions, totals.ghosts_dropped, totals.anomalies) == (0, 0, 0)


def test_every_missed_token_has_the_reason_that_the_history_gives() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LedgerMachine, settings=settings(max_examples=250, stateful_step_count=50, deadline=None)
    )
