"""SGLang pages to samples."""

import pytest

from hitcurve import flags
from hitcurve.readers import PageRefused, read_page
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


def test_a_mode_that_was_never_increased_is_not_printed_and_is_zero() -> None:
    """0.5.22 leaves increases of 0 out: an engine whose cache finds nothing prints no ``prefill_cache``."""
    found = sample(f'{NAME}{{{LABELS},mode="prefill_compute"}} 60', f'{NAME}{{{LABELS},mode="decode"}} 7')
    assert found.lookups == LookupCounters(60, 0, spelling=NAME)


@pytest.mark.parametrize(
    "modes",
    [
        {"": 500},
        {',mode="prefill_cache"': 500},
        {',mode="prefill_cache"': "NaN", ',mode="prefill_compute"': 60},
    ],
)
def test_prefill_tokens_that_are_not_told_apart_are_unknown_and_no_other_pair_stands_in(
    modes: dict[str, object],
) -> None:
    older = f'sglang:prompt_tokens_total{{{LABELS}}} 9\nsglang:cached_tokens_total{{{LABELS},cache_source="a"}} 3'
    found = sample(*(f"{NAME}{{{LABELS}{mode}}} {value}" for mode, value in modes.items()), older)
    assert (found.lookups, found.flags) == (None, (flags.UNREADABLE_LOOKUPS,))
    assert found.served == ServedCounters(9, 3)


def test_an_engine_that_only_decodes_looks_nothing_up() -> None:
    assert sample(f'{NAME}{{{LABELS},mode="decode"}} 7').lookups == LookupCounters(0, 0, spelling=NAME)


@pytest.mark.parametrize("colon", [":", "_"])
def test_an_engine_that_served_nothing_yet_has_counters_of_zero(colon: str) -> None:
    """Its page has the scheduler's gauges, and no counter before its first increase."""
    ranks = [f'{LABELS},tp_rank="{rank}"' for rank in (0, 1)]
    gauges = {"max_total_num_tokens": 4096, "token_usage": 0, "num_running_reqs": 0}
    unused = [f"sglang{colon}{name}{{{labels}}} {value}" for name, value in gauges.items() for labels in ranks]
    found = sample(*unused, f'sglang{colon}num_queue_reqs{{{LABELS},priority="3",tp_rank="0"}} 0')
    assert found.lookups == LookupCounters(0, 0, spelling=NAME.replace(":", colon))
    assert (found.engine, found.kv_usage, found.capacity_tokens) == ("0", 0.0, 4096)
    assert found.labels == {"engine_type": "unified", "model_name": "m"}


@pytest.mark.parametrize(
    "sign",
    [
        f"sglang:num_running_reqs{{{LABELS}}} 1",
        f"sglang:num_running_reqs{{{LABELS}}} 0\nsglang:time_to_first_token_seconds_count{{{LABELS}}} 4",
        "",
    ],
)
def test_counters_that_somebody_dropped_are_unknown_and_not_zero(sign: str) -> None:
    found = sample(f"sglang:token_usage{{{LABELS}}} 0.2", sign)
    assert (found.lookups, found.flags) == (None, (flags.UNREADABLE_LOOKUPS,))


def test_prompt_tokens_without_cached_ones_are_no_lookups() -> None:
    """Versions without ``realtime_tokens_total`` may lack the other counter, or have nothing to count in it."""
    page = f"sglang:prompt_tokens_total{{{LABELS}}} 100\nsglang:token_usage{{{LABELS}}} 0.1\n"
    with pytest.raises(PageRefused, match="SGLang metrics but no"):
        read_page(page, None, at_s=7.0, monotonic_s=8.0)


def pool_page(evicted_labels: str, *engines: str) -> list[str]:
    """A page with an eviction counter of these labels, and a pool for each engine."""
    lines = [f"sglang:evicted_tokens_total{{{evicted_labels}}} 320"]
    for labels in engines:
        lines += realtime(NAME, labels, 40, 60)
        lines += [f"sglang:page_size{{{labels}}} 16", f"sglang:num_pages{{{labels}}} 256"]
        lines += [f"sglang:max_total_num_tokens{{{labels}}} 4096"]
        lines += [f"sglang:num_retracted_requests_total{{{labels}}} 3"]
    return lines


RADIX = 'cache_type="UnifiedRadixCache",pp_rank="0"'


def test_the_pool_evictions_and_retractions_are_read() -> None:
    found = sample(*pool_page(f'{RADIX},dp_rank="0",tp_rank="0"', f'{LABELS},pp_rank="0",tp_rank="0"'))
    assert (found.block_size, found.pool_blocks, found.capacity_tokens) == (16, 256, 4096)
    assert found.min_reusable_prefix_tokens == 16
    assert (found.preemptions, found.evictions) == (3, 20)


def test_evictions_that_belong_to_no_single_engine_are_unknown() -> None:
    """Older versions sum all ranks into one series; replicas without data-parallel attention all print rank 0."""
    summed = sample(*pool_page('cache_type="RadixCache"', f'{LABELS},tp_rank="0"'))
    assert (summed.evictions, summed.preemptions) == (None, 3)
    lines = pool_page(f'{RADIX},dp_rank="0",tp_rank="0"', *(f'{LABELS},dp_rank="{rank}"' for rank in (0, 1)))
    both = read_page("".join(line + "\n" for line in lines), None, at_s=7.0, monotonic_s=8.0)
    assert [(one.engine, one.evictions) for one in both] == [("0", None), ("1", None)]


def test_requests_of_all_ranks_together_belong_to_no_single_one() -> None:
    """The API server counts them without ``dp_rank``; an engine alone on its page has them all."""
    counted = [
        'sglang:time_to_first_token_seconds_count{model_name="m"} 30',
        'sglang:prompt_tokens_total{model_name="m"} 200',
        'sglang:cached_tokens_total{cache_source="device",model_name="m"} 80',
    ]
    ranks = [realtime(NAME, f'{LABELS},dp_rank="{rank}",tp_rank="{rank}"', 40, 60) for rank in (0, 1)]
    alone = sample(*ranks[0], *counted)
    assert (alone.requests, alone.served, alone.tier_hits) == (30, ServedCounters(200, 80), {"device": 80})
    page = "".join(f"{line}\n" for line in (*ranks[0], *ranks[1], *counted))
    for one in read_page(page, None, at_s=7.0, monotonic_s=8.0):
        assert one.lookups == LookupCounters(100, 40, spelling=NAME)
        assert (one.requests, one.served, one.tier_hits) == (None, None, None)


def test_a_rank_that_served_nothing_yet_is_there_beside_one_that_did() -> None:
    ranks = [f'{LABELS},dp_rank="{rank}",tp_rank="{rank}"' for rank in (0, 1)]
    gauges = [f"sglang:{name}{{{labels}}} 0" for labels in ranks for name in ("token_usage", "num_running_reqs")]
    odd = f'sglang:token_usage{{{LABELS},somebody="else",tp_rank="0"}} 0'
    page = "".join(f"{line}\n" for line in (*realtime(NAME, ranks[1], 40, 60), *gauges, odd))
    found = {one.engine: one.lookups for one in read_page(page, None, at_s=7.0, monotonic_s=8.0)}
    assert found == {"0": LookupCounters(0, 0, spelling=NAME), "1": LookupCounters(100, 40, spelling=NAME)}


def test_an_engine_without_ranks_keeps_its_own_series_beside_one_with_ranks() -> None:
    """A page of two servers, of which one splits its traffic over ranks; an empty label is the same as none."""
    own = [f'{LABELS},instance="a"', *(f'{LABELS},instance="b",dp_rank="{rank}"' for rank in (0, 1))]
    lines = [line for labels in own for line in realtime(NAME, labels, 40, 60)]
    count = "sglang:time_to_first_token_seconds_count"
    lines += [f'{count}{{model_name="m",instance="a"}} 7', f'{count}{{model_name="m",instance="b",dp_rank=""}} 9']
    page = "".join(f"{line}\n" for line in lines)
    found = read_page(page, None, at_s=7.0, monotonic_s=8.0)
    assert [one.lookups for one in found] == [LookupCounters(100, 40, spelling=NAME)] * 3
    assert [one.requests for one in found] == [7, None, None]
