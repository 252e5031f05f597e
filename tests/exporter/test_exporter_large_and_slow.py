"""EXP-35: a page of 200,000 lines and a target that takes 12 s, beside a fast one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hitcurve_exporter.configuration.load import configuration_from_options

Start = Callable[..., Any]

ADAPTERS = 400
HISTOGRAMS = 10
BUCKETS = 50


def large_page(small_page: str) -> str:
    """The small page among 200,000 lines of histograms by adapter."""
    lines = [small_page]
    for histogram in range(HISTOGRAMS):
        name = f"vllm:some_histogram_{histogram}_seconds"
        lines.append(f"# TYPE {name} histogram\n")
        for adapter in range(ADAPTERS):
            labels = f'engine="0",lora="adapter-{adapter}",model_name="tiny"'
            lines += [f'{name}_bucket{{{labels},le="{bucket}"}} {bucket * 7.0}\n' for bucket in range(BUCKETS)]
    return "".join(lines)


def engine_lines(page: str, url: str) -> list[str]:
    """What a page of ours says about one target, with the target's name and all values left out."""
    return [
        line.replace(url, "URL").rpartition(" ")[0]
        for line in page.splitlines()
        if f'target="{url}"' in line and not line.startswith("#")
    ]


@pytest.fixture
def exporter_of(start_exporter: Start) -> Start:
    """An exporter that scrapes every 100 ms and waits up to 30 s for each page."""

    def start(*urls: str) -> Any:
        return start_exporter(replace(configuration_from_options(urls, "100ms"), timeout_s=30.0))

    return start


def test_a_large_page_is_read_and_ours_stays_small(
    scripted_engine: Start, exporter_of: Start, eventually: Start, page_of: Callable[..., str]
) -> None:
    page = large_page(page_of(1000, 500, 10))
    assert page.count("\n") > HISTOGRAMS * ADAPTERS * BUCKETS == 200_000
    large, small = scripted_engine(page), scripted_engine(page_of(1000, 500, 10))
    exporter = exporter_of(large.url, small.url)
    eventually(lambda: min(large.scrapes, small.scrapes) >= 3, "two pages taken of both")
    ours = exporter.ask("/metrics").text
    assert engine_lines(ours, large.url) == engine_lines(ours, small.url)
    labels = f'target="{large.url}",engine="0",model_name="tiny"'
    assert f"hitcurve_cumulative_hit_rate_ratio{{{labels}}} 0.5\n" in ours
    assert f'hitcurve_scrape_body_bytes{{target="{large.url}"}} {len(page)}\n' in ours


def test_a_page_above_the_bound_is_left(
    scripted_engine: Start, start_exporter: Start, eventually: Start, page_of: Callable[..., str]
) -> None:
    engine = scripted_engine(large_page(page_of(1000, 500)))
    config = replace(configuration_from_options([engine.url], "100ms"), timeout_s=30.0, max_body_bytes=1_000_000)
    exporter = start_exporter(config)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    (target,) = exporter.engines()["targets"]
    assert target["failure"] == "body_too_large"
    assert target["failure_detail"] == "the page is larger than 1000000 bytes"


def test_a_slow_target_does_not_delay_a_fast_one(
    scripted_engine: Start, exporter_of: Start, eventually: Start, page_of: Callable[..., str]
) -> None:
    slow = scripted_engine(page_of(1000, 500), delay_s=12.0)
    fast = scripted_engine(page_of(1000, 500, 10))
    exporter = exporter_of(slow.url, fast.url)
    eventually(lambda: slow.scrapes == 1, "the scrape that hangs")
    before = fast.scrapes
    eventually(lambda: fast.scrapes >= before + 5, "five more scrapes of the fast target")
    fast.page = page_of(2000, 1400, 20)
    window = f'hitcurve_hit_rate_ratio{{target="{fast.url}",engine="0",model_name="tiny",window="30s"}}'
    eventually(lambda: exporter.samples().get(window) == 0.9, "the new rate of the fast target")
    assert slow.scrapes == 1
    assert f'hitcurve_up{{target="{slow.url}"}}' not in exporter.samples()
    slow.delay_s = 0.0
    slow.released.set()
    skipped = f'hitcurve_scrapes_skipped_total{{target="{slow.url}"}}'
    eventually(lambda: exporter.samples().get(skipped, 0) > 0, "the turns that were left out")
