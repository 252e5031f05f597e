"""SGLang pages to samples."""

from hitcurve.readers import read_page
from hitcurve.sample import EngineSample, LookupCounters, ServedCounters

LABELS = 'engine_type="unified",model_name="m"'
NAME = "sglang:realtime_tokens_total"


def sample(*lines: str) -> EngineSample:
    (found,) = read_page("".join(line + "\n" for line in lines), None, at_s=7.0, monotonic_s=8.0)
    return found


def realtime(name: str, labels: str, cached: int, computed: int) -> list[str]:
    return [
        f'{name}{{{labels},mode="prefill_cache"}} {cached}',
        f'{name}{{{labels},mode="prefill_compute"}} {computed}',
        f'{name}{{{labels},mode="decode"}} 777',
    ]


def test_lookups_are_prefill_tokens_and_the_gauge_is_not_read() -> None:
    for name in (NAME, NAME.replace(":", "_")):
        found = sample(f"sglang:cache_hit_rate{{{LABELS}}} 0.0", *realtime(name, LABELS, 40, 60))
        assert found == EngineSample(
            engine="0",
            at_s=7.0,
            monotonic_s=8.0,
            labels={"engine_type": "unified", "model_name": "m"},
            lookups=LookupCounters(100, 40, spelling=name),
        )


def test_without_prefill_counters_prompt_and_cached_tokens_are_the_lookups() -> None:
    found = sample(
        f"sglang:prompt_tokens_total{{{LABELS}}} 100",
        f'sglang:cached_tokens_total{{{LABELS},cache_source="device"}} 30',
        f'sglang:cached_tokens_total{{{LABELS},cache_source="host"}} 10',
    )
    assert found.lookups == LookupCounters(100, 40, spelling="sglang:prompt_tokens_total")
    assert found.served == ServedCounters(100, 40)
    assert found.tier_hits == {"device": 30, "host": 10}


def test_a_copy_per_rank_counts_once_and_gauges_come_from_the_same_rank() -> None:
    found = sample(
        *realtime(NAME, f'{LABELS},dp_rank="1",tp_rank="3"', 40, 60),
        *realtime(NAME, f'{LABELS},dp_rank="1",tp_rank="10"', 40, 60),
        f'sglang:num_queue_reqs{{{LABELS},dp_rank="1",tp_rank="3"}} 5',
        f'sglang:num_queue_reqs{{{LABELS},dp_rank="1",tp_rank="10"}} 0',
        f'sglang:num_running_reqs{{{LABELS},dp_rank="1",tp_rank="3"}} 2',
        f'sglang:token_usage{{{LABELS},dp_rank="1",tp_rank="3"}} 0.5',
    )
    assert found.engine == "1"
    assert found.lookups == LookupCounters(100, 40, spelling=NAME)
    assert (found.waiting, found.running, found.kv_usage) == (5, 2, 0.5)
