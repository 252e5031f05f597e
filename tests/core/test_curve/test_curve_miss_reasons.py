"""The miss reasons of the engine patch name the cause of a fall that nothing else explains."""

from collections.abc import Mapping

import pytest

from hitcurve.curve import CurveClassifier
from hitcurve.curve.miss_reasons import MISS_REASONS, MissReasons
from hitcurve.engine_patch_catalogue import ENGINE_PATCH_CATALOGUE
from hitcurve.readers import read_page
from hitcurve.readers.vllm_names import spellings
from hitcurve.reading import CurveState, Cut, Interval
from hitcurve.sample import AdapterActivity, EngineSample, ExplainedLookups
from hitcurve_engine import ledger

QUERIES, SCRAPE_S = 80_000.0, 15.0
USUAL = {"compulsory": 0.08, "capacity": 0.0, "tail": 0.02}


def told(total: Mapping[str, float], scrapes: int) -> ExplainedLookups:
    return ExplainedLookups(QUERIES * scrapes, {reason: QUERIES * share for reason, share in total.items()})


def watched(after: Mapping[str, float], *, adapters: bool = False, explained: bool = True) -> CurveState:
    """The state after 60 scrapes at a rate of 0.9 and 20 at what ``after`` leaves, its misses explained."""
    classifier, total = CurveClassifier(), dict.fromkeys((*USUAL, *after), 0.0)
    state = classifier.observe(
        None, EngineSample("0", 0.0, 0.0, explained=told(total, 0)), 0.0, (Cut(0.0, "start"),)
    )
    for number in range(1, 81):
        shares = after if number > 60 else USUAL
        for reason, share in shares.items():
            total[reason] += share
        at_s, hits = number * SCRAPE_S, QUERIES * (1.0 - sum(shares.values()))
        rate = hits / QUERIES
        interval = Interval(at_s - SCRAPE_S, at_s, QUERIES, hits, rate, requests=100.0)
        fresh = (f"new {number}", f"newer {number}") if adapters and number > 60 else ("old",)
        sample = EngineSample(
            "0",
            at_s,
            at_s,
            adapters=AdapterActivity(fresh),
            explained=told(total, number) if explained else None,
        )
        state = classifier.observe(interval, sample, at_s)
        if number == 60:
            assert (state.state, state.evidence["miss_reason"]) == ("steady", None)
    return state


@pytest.mark.parametrize(
    ("after", "cause", "reason"),
    [
        ({"compulsory": 0.08, "capacity": 0.4, "tail": 0.02}, "pool_pressure", "capacity"),
        ({"compulsory": 0.08, "stranded": 0.4, "tail": 0.02}, "pool_pressure", "stranded"),
        ({"compulsory": 0.08, "isolated": 0.4, "tail": 0.02}, "isolation", "isolated"),
        ({"compulsory": 0.5, "tail": 0.02}, "traffic_shift", "compulsory"),
        ({"compulsory": 0.08, "tail": 0.4}, "traffic_shift", "tail"),
        ({"compulsory": 0.08, "reset": 0.4, "tail": 0.02}, "reset", "reset"),
        ({"compulsory": 0.23, "capacity": 0.13, "isolated": 0.12, "tail": 0.02}, "unknown", None),
        ({"compulsory": 0.08, "capacity": 0.1, "unknown": 0.3, "tail": 0.02}, "unknown", None),
    ],
)
def test_the_reason_that_grew_names_the_cause(after: Mapping[str, float], cause: str, reason: str | None) -> None:
    state = watched(after)
    assert (state.state, state.cause, state.evidence["miss_reason"]) == ("degraded", cause, reason)
    untold = watched(after, explained=False)
    assert (untold.state, untold.cause, untold.evidence["miss_reason"]) == ("degraded", "unknown", None)


def test_fresh_adapters_come_before_all_reasons_but_a_reset() -> None:
    crowded = {"compulsory": 0.08, "capacity": 0.4, "tail": 0.02}
    assert watched(crowded, adapters=True).cause == "lora_churn"
    assert watched({"compulsory": 0.08, "reset": 0.4, "tail": 0.02}, adapters=True).cause == "reset"


@pytest.mark.parametrize(
    ("shares", "cause"),
    [
        ({"capacity": 0.97}, "pool_pressure"),
        ({"isolated": 0.97}, "isolation"),
        ({"tail": 0.97}, "short_prefix"),
        ({"compulsory": 0.97}, "unknown"),
    ],
)
def test_a_rate_that_never_rises_is_explained_without_anything_usual(
    shares: Mapping[str, float], cause: str
) -> None:
    classifier = CurveClassifier()
    state = classifier.observe(
        None, EngineSample("0", 0.0, 0.0, explained=ExplainedLookups(0.0, {})), 0.0, (Cut(0.0, "start"),)
    )
    for number in range(1, 60):
        at_s = number * SCRAPE_S
        total = {reason: share * number for reason, share in shares.items()}
        interval = Interval(at_s - SCRAPE_S, at_s, QUERIES, 0.03 * QUERIES, 0.03, requests=100.0)
        sample = EngineSample("0", at_s, at_s, explained=told(total, number))
        state = classifier.observe(interval, sample, at_s)
    assert (state.state, state.cause) == ("low", cause)


def test_counters_that_restart_or_pause_count_from_zero_or_not_at_all() -> None:
    reasons = MissReasons()
    counts = {"tail": 2.0, "capacity": 9.0}
    seen = [(10.0, {"tail": 1.0}), (20.0, {"tail": 2.0}), None, (30.0, counts), (8.0, {"tail": 2.0})]
    for at_s, counted in enumerate(seen):
        reasons.observe(float(at_s), None if counted is None else ExplainedLookups(*counted))
    # 1 of 10 tokens before the pause, 2 of 8 after the restart; what came with the pause is not known.
    assert reasons.grown(0.0) == "tail"
    assert reasons.grown(4.0) is None
    assert MissReasons().grown(0.0) is None


def test_a_page_without_a_reason_does_not_make_all_of_it_new_at_the_next() -> None:
    reasons = MissReasons()
    seen = [(100.0, {"tail": 50.0}), (200.0, {}), (300.0, {"tail": 52.0, "reset": 9.0})]
    for at_s, counted in enumerate(seen):
        reasons.observe(float(at_s), ExplainedLookups(*counted))
    assert reasons.grown(0.0) == "reset"


def test_reasons_are_read_over_all_adapters_of_an_engine() -> None:
    labels = 'engine="{}",model_name="m"'
    lines = []
    for engine in (0, 1):
        own = labels.format(engine)
        lines += [f"vllm:prefix_cache_{name}_total{{{own}}} 100" for name in ("queries", "hits")]
        for adapter, tokens in (("", 10), ("a", 20)):
            lines.append(
                f'hitcurve_engine_query_tokens_total{{{own},adapter="{adapter}"}} {tokens * (engine + 1)}'
            )
            lines.append(f'hitcurve_engine_hit_tokens_total{{{own},adapter="{adapter}"}} {tokens * engine}')
            lines.append(f'hitcurve_engine_miss_tokens_total{{{own},adapter="{adapter}",reason="tail"}} {tokens}')
    lines.append(f'hitcurve_engine_miss_tokens_total{{{labels.format(1)},adapter="",reason="reset"}} 5')
    first, second = read_page("".join(f"{line}\n" for line in lines), None, at_s=0.0, monotonic_s=0.0)
    assert first.explained == ExplainedLookups(30, {"tail": 30}, {"": (10, 0), "a": (20, 0)})
    assert second.explained == ExplainedLookups(60, {"tail": 30, "reset": 5}, {"": (20, 10), "a": (40, 20)})
    assert (first.labels, first.engine) == ({"engine": "0", "model_name": "m"}, "0")


def test_the_names_and_labels_are_those_of_the_engine_patch() -> None:
    labels = {metric.name: metric.labels for metric in ENGINE_PATCH_CATALOGUE}
    assert {name for name in spellings() if name.startswith("hitcurve_engine_")} <= labels.keys()
    assert labels["hitcurve_engine_miss_tokens_total"] == ("adapter", "reason")
    assert set(MISS_REASONS) == set(ledger.MISS_REASONS)
    assert (
        labels["hitcurve_engine_query_tokens_total"] == labels["hitcurve_engine_hit_tokens_total"] == ("adapter",)
    )
