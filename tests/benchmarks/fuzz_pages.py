"""Mutated engine pages against the readers: no crash, no hang, no growth, and what prometheus_client reads.

    python tests/benchmarks/fuzz_pages.py [--pages 1000000] [--seed 1]

Real pages are damaged in one to six places and read. A reader may refuse a page (PageRefused) and do nothing else
but return samples that make sense. Every fourth page goes on through the monitor; every fiftieth is read by
prometheus_client as well, and where that takes it, both must have read the same.

Prints one JSON object. Exit 1 where something is wrong, with the page that showed it in the file it names.
"""

import argparse
import faulthandler
import gc
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from hitcurve.monitor import TargetMonitor
from hitcurve.readers import PageRefused, read_page
from hitcurve.readers.exposition import MalformedLine, parse_page
from hitcurve.readers.page import wanted_names
from hitcurve.sample import EngineSample
from hitcurve.scrape import Scrape

TESTS = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("HITCURVE_SHARED", TESTS.parent.parent / "shared"))
HANG_S = 10.0
TRTLLM = """\
# HELP trtllm_kv_cache_reused_blocks_total Blocks reused.
# TYPE trtllm_kv_cache_reused_blocks_total counter
trtllm_kv_cache_reused_blocks_total{engine_type="trtllm",model_name="m"} 700.0
# HELP trtllm_kv_cache_missed_blocks_total Blocks missed.
# TYPE trtllm_kv_cache_missed_blocks_total counter
trtllm_kv_cache_missed_blocks_total{engine_type="trtllm",model_name="m"} 300.0
# TYPE trtllm_kv_cache_tokens_per_block gauge
trtllm_kv_cache_tokens_per_block{engine_type="trtllm",model_name="m"} 32.0
# TYPE trtllm_num_requests_waiting gauge
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 0.0
"""
TRTLLM_JSON = (
    '[{"iter": 7, "numActiveRequests": 2, "numQueuedRequests": 0, "kvCacheStats": {"reusedBlocks": 700, '
    '"missedBlocks": 300, "tokensPerBlock": 32, "maxNumBlocks": 4000, "cacheHitRate": 0.7}}]'
)
WATCHED_PAGES = 1_000
GROWTH_BYTES = 24 * 1024 * 1024
TOKENS = [
    b"{", b"}", b'"', b"\\", b"\\n", b'\\"', b"\n", b"\r\n", b"\t", b" ", b",", b"=", b"#", b"# EOF\n", b"\0",
    b"NaN", b"+Inf", b"-Inf", b"-1", b"1e999", b"1e-400", b"0x10", b"1_000", b"9" * 400, b"9" * 5_000, b"1.5.5",
    b"\xff", "ü€".encode(), b"# HELP vllm:gpu_prefix_cache_queries_total blocks\n", b"# TYPE vllm:x counter\n",
    b'engine="1"', b',engine="0"', b'model_name=""', b" 1700000000000", b' # {a="b"} 1 2', b"vllm:", b"ray_",
    b"_total", b"_created", b"x" * 5_000, b"{" * 200, b'a="' * 100,
]  # fmt: skip


def seed_pages() -> list[bytes]:
    """The recorded page, its wanted part, and the pages of the cases where those are at hand."""
    recorded = (TESTS / "core" / "vllm_0.32.0_page.prom").read_bytes()
    names = wanted_names()
    lines = recorded.decode().splitlines(keepends=True)
    short = [
        line for line in lines if line.split("{")[0].split(" ")[0] in names or line.startswith("# HELP vllm:pre")
    ]
    cases = [file.read_bytes() for file in sorted(SHARED.glob("cases/EXP-*/*.prom"))]
    cases += [TRTLLM.encode(), TRTLLM_JSON.encode()]
    return [*([recorded] * 6), *(["".join(short).encode()] * 4), *cases]


def mutated(page: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    """The page with one to six pieces of damage."""
    for _ in range(dice.randint(1, 6)):
        page = dice.choice(DAMAGES)(page, others, dice)
    return page


def change_byte(page: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(page) + 1)
    return page[:at] + bytes([dice.randrange(256)]) + page[at + 1 :]


def change_digit(page: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    digits = [at for at in (dice.randrange(len(page) or 1) for _ in range(20)) if page[at : at + 1].isdigit()]
    at = digits[0] if digits else 0
    return page[:at] + str(dice.randrange(10)).encode() + page[at + 1 :]


def insert_token(page: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(page) + 1)
    return page[:at] + dice.choice(TOKENS) + page[at:]


def drop_piece(page: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(page) + 1)
    return page[:at] + page[at + dice.randint(1, 60) :]


def cut_off(page: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
    return page[: dice.randrange(len(page) + 1)]


def on_lines(change: Callable[[list[bytes], random.Random], None]) -> Callable[..., bytes]:
    """A damage that works on whole lines."""

    def damage(page: bytes, _: Sequence[bytes], dice: random.Random) -> bytes:
        lines = page.splitlines(keepends=True)
        if lines:
            change(lines, dice)
        return b"".join(lines)

    return damage


def repeat_line(lines: list[bytes], dice: random.Random) -> None:
    lines.insert(dice.randrange(len(lines) + 1), dice.choice(lines))


def lose_line(lines: list[bytes], dice: random.Random) -> None:
    lines.pop(dice.randrange(len(lines)))


def swap_lines(lines: list[bytes], dice: random.Random) -> None:
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def glue(page: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    other = dice.choice(others)
    return page + other if dice.random() < 0.5 else other + page


DAMAGES = [
    change_byte,
    change_digit,
    change_digit,
    insert_token,
    insert_token,
    drop_piece,
    cut_off,
    on_lines(repeat_line),
    on_lines(lose_line),
    on_lines(swap_lines),
    glue,
]


def check_samples(samples: Sequence[EngineSample]) -> None:
    assert samples
    assert len({sample.engine for sample in samples}) == len(samples)
    for sample in samples:
        counters = [sample.requests, sample.preemptions, sample.evictions, sample.resets]
        if sample.lookups is not None:
            counters += [sample.lookups.queries, sample.lookups.hits]
        assert all(value is None or (math.isfinite(value) and value >= 0) for value in counters), sample
        gauges = [sample.kv_usage, sample.running, sample.waiting, sample.start_time_s]
        assert all(value is None or math.isfinite(value) for value in gauges), sample


class Watched:
    """A monitor that is fed mutants; what it says must make sense."""

    def __init__(self) -> None:
        self._monitor = TargetMonitor("fuzz", windows_s=(30.0, 300.0))
        self._totals: dict[str, float] = {}
        self._at_s = 1_700_000_000.0
        self._seen = 0

    def take(self, body: bytes, content_type: str) -> None:
        self._seen += 1
        if self._seen % WATCHED_PAGES == 0:
            # As many engines as mutants would be kept; a real target does not change its labels all the time.
            self._monitor = TargetMonitor("fuzz", windows_s=(30.0, 300.0))
            self._totals.clear()
        self._at_s += 15.0
        scrape = Scrape(self._at_s, self._at_s, "fuzz", 200, body, content_type)
        for reading in self._monitor.observe(scrape):
            rates = [reading.cumulative_hit_rate, *(window.hit_rate for window in reading.windows)]
            assert all(rate is None or 0 <= rate <= 1 for rate in rates), reading
            if reading.engine in self._totals and not reading.cuts:
                assert reading.query_tokens_total >= self._totals[reading.engine], reading
            self._totals[reading.engine] = reading.query_tokens_total


def compare(body: bytes) -> str:
    """How our parser and prometheus_client's take the page; AssertionError where they read different things.

    Theirs gives counters the suffix ``_total`` that a page lacks, and keeps every repetition of a series.
    """
    text = body.decode("utf-8", "replace")
    names = wanted_names()
    try:
        theirs = [
            (sample.name.removesuffix("_total"), frozenset(sample.labels.items()), repr(float(sample.value)))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name in names
        ]
    except Exception:
        return "they_refuse"
    try:
        page = parse_page(text, names)
    except MalformedLine:
        return "we_refuse"
    ours = [
        (series.name.removesuffix("_total"), frozenset(series.labels.items()), repr(series.value))
        for found in page.series.values()
        for series in found
    ]
    assert set(ours) <= set(theirs), set(ours) - set(theirs)
    assert {one[:2] for one in theirs} <= {one[:2] for one in ours}, {one[:2] for one in theirs}
    return "same"


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fuzz(pages: int, seed: int) -> dict[str, object]:
    dice = random.Random(seed)
    seeds = seed_pages()
    watched, outcomes, compared = Watched(), Counter[str](), Counter[str]()
    # Shows where it hangs, then ends the process; counted in time of the CPU, since others may need the machine.
    faulthandler.register(signal.SIGVTALRM, chain=True)
    slowest_s, began, first_bytes = 0.0, time.monotonic(), 0
    for number in range(pages):
        signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
        if number == pages // 10:
            first_bytes = resident_bytes()
        body = mutated(dice.choice(seeds), seeds[1:], dice)
        content_type = "application/openmetrics-text" if dice.random() < 0.1 else "text/plain"
        started = time.perf_counter()
        try:
            try:
                check_samples(read_page(body, content_type, at_s=1.0, monotonic_s=1.0))
                outcomes["read"] += 1
            except PageRefused:
                outcomes["refused"] += 1
            slowest_s = max(slowest_s, time.perf_counter() - started)
            if number % 4 == 0:
                watched.take(body, content_type)
            if number % 50 == 0:
                compared[compare(body)] += 1
        except Exception as error:
            with tempfile.NamedTemporaryFile(suffix=".prom", delete=False) as kept:
                kept.write(body)
            raise SystemExit(f"page {number} of seed {seed}: {error!r}; the page is in {kept.name}") from error
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    grown = resident_bytes() - first_bytes
    if grown > GROWTH_BYTES:
        raise SystemExit(f"memory grew by {grown} bytes over {pages} pages")
    return {
        "pages": pages,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "outcomes": dict(outcomes),
        "against_prometheus_client": dict(compared),
        "slowest_ms": round(1_000 * slowest_s, 2),
        "grown_bytes": grown,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    json.dump(fuzz(chosen.pages, chosen.seed), sys.stdout)
    print()
