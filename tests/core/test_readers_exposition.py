"""The page parser against prometheus_client's, and on text no reader should trip over."""

import contextlib
import math
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from hitcurve.readers.exposition import MalformedLine, Page, Series, parse_page, parse_sample

NAMES = ["vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries", "up", "a_bucket", "b_created"]

label_names = st.text(string.ascii_letters + "_", min_size=1, max_size=8).filter(
    lambda name: not name.startswith("__")
)
label_values = st.text(max_size=12)
values = st.one_of(st.floats(), st.integers(-(10**6), 10**6).map(float))
blanks = st.sampled_from(["", " ", "\t", "  "])
Labels = dict[str, str]


def comparable(name: str, labels: Labels, value: float) -> tuple[str, tuple[tuple[str, str], ...], str]:
    return name, tuple(sorted(labels.items())), repr(float(value))


def ours(page: Page) -> list[object]:
    return sorted(
        comparable(one.name, dict(one.labels), one.value) for found in page.series.values() for one in found
    )


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def pages(draw: st.DrawFn) -> str:
    """Legal pages with odd blanks, commas, timestamps, comments and repeated TYPE lines."""
    lines = []
    written: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=6)):
        lines.append(draw(st.sampled_from(["", "# TYPE up gauge", "# HELP up it is {up} 1", "# a comment", "#"])))
        labels = draw(st.dictionaries(label_names, label_values, max_size=3))
        key = (name, frozenset(labels.items()))
        if key in written:
            continue
        written.add(key)
        pad = [draw(blanks) for _ in range(4)]
        body = ",".join(f'{label}{pad[0]}={pad[1]}"{escaped(value)}"{pad[2]}' for label, value in labels.items())
        comma = draw(st.sampled_from(["", ","])) if labels else ""
        braces = f"{{{body}{comma}}}" if labels or draw(st.booleans()) else ""
        value = draw(values)
        number = draw(st.sampled_from([repr(value), f"{value:e}"])) if math.isfinite(value) else str(value)
        stamp = draw(st.sampled_from(["", " 1760000000123"]))
        gap = draw(st.sampled_from([" ", "\t", "  "]))
        lines.append(f"{name}{pad[3] if braces else ''}{braces}{gap}{number}{stamp}")
    return "".join(line + "\n" for line in lines)


@given(pages())
def test_reads_what_prometheus_client_reads(text: str) -> None:
    theirs = sorted(
        comparable(sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    )
    assert ours(parse_page(text, frozenset(NAMES))) == theirs


@settings(max_examples=40)
@given(
    st.lists(st.tuples(label_values, label_values, st.floats(0, 1e12)), max_size=4, unique_by=lambda row: row[:2])
)
def test_reads_what_prometheus_client_writes(rows: list[tuple[str, str, float]]) -> None:
    registry = CollectorRegistry()
    counter = Counter("lookups", "Lookups.", ["model_name", "engine"], registry=registry)
    gauge = Gauge("usage", "Usage.", ["model_name", "engine"], registry=registry)
    histogram = Histogram("ttft_seconds", "TTFT.", ["model_name", "engine"], registry=registry)
    for model, engine, value in rows:
        counter.labels(model, engine).inc(value, exemplar={"trace_id": "a#b{c}"})
        gauge.labels(model, engine).set(-value)
        histogram.labels(model, engine).observe(value, exemplar={"trace_id": "d e"})
    wanted = frozenset({"lookups_total", "lookups_created", "usage", "ttft_seconds_count", "ttft_seconds_bucket"})
    for text, families in [
        (generate_latest(registry).decode(), text_string_to_metric_families),
        (openmetrics.generate_latest(registry).decode(), openmetrics_families),
    ]:
        theirs = sorted(
            comparable(sample.name, sample.labels, sample.value)
            for family in families(text)
            for sample in family.samples
            if sample.name in wanted
        )
        assert ours(parse_page(text, wanted)) == theirs


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    names: set[str] = set()
    with contextlib.suppress(MalformedLine):
        names = set(parse_page(text, frozenset(NAMES)).series)
    assert names <= set(NAMES)


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("up 1", {}, 1.0),
        ("up\t1.5E+2\t-7", {}, 150.0),
        ("  up{} +Inf", {}, math.inf),
        (' up { a = "b" , } 0x10', None, None),
        ('up{a="1"} 5 # {trace_id="x y"} 0.25 1760000000.5', {"a": "1"}, 5.0),
        (r'up{a="\\n\n\"\x"} -Inf', {"a": '\\n\n"\\x'}, -math.inf),
        ('up{a="}{,#= "} 1', {"a": "}{,#= "}, 1.0),
        ('up{a="1",b="2",} 1.', {"a": "1", "b": "2"}, 1.0),
    ],
)
def test_a_line(line: str, labels: Labels | None, value: float | None) -> None:
    found = parse_sample(line)
    assert found == (None if labels is None else Series("up", labels, value or 0.0))


@pytest.mark.parametrize(
    "line",
    [
        'up{a="1"',
        'up{a="1"} ',
        "up{a=1} 1",
        'up{a="1"b="2"} 1',
        'up{a="1",a="2"} 1',
        'up{,a="1"} 1',
        'up{a="1\\"} 1',
        "up 1_000",
        "up one",
        "up 1 2 3",
        "up 1 noon",
        "up ٣",
        "up",
        "",
    ],
)
def test_not_a_sample(line: str) -> None:
    assert parse_sample(line) is None


def test_a_malformed_wanted_line_is_named_and_a_foreign_one_is_not_read() -> None:
    page = parse_page('other{a="1" 2\nup 1\n', frozenset({"up"}))
    assert page.series == {"up": (Series("up", {}, 1.0),)}
    with pytest.raises(MalformedLine, match="line 2 is not a sample") as refused:
        parse_page('other 1\nup{a="1" 2\n', frozenset({"up"}))
    assert refused.value.number == 2


def test_names_match_whole_and_repeated_series_count_once() -> None:
    text = 'up{a="1",b="2"} 1\nup_created 9\nup{b="2",a="1"} 3\nup{a="2"} 4\n'
    page = parse_page(text, frozenset({"up"}))
    assert page.series == {
        "up": (Series("up", {"a": "1", "b": "2"}, 1.0), Series("up", {"a": "2"}, 4.0)),
    }
    assert page.repeated == {"up"}


def test_help_texts_of_wanted_names() -> None:
    page = parse_page("# HELP up Number of blocks.\n# HELP down No.\nup 1\n", frozenset({"up"}))
    assert page.helps == {"up": "Number of blocks."}


@pytest.mark.parametrize(
    "line",
    [
        "a " + "9" * 1_000_000 + "x",
        "a 1 " + "9" * 1_000_000 + "x",
        "a 1" + " " * 1_000_000 + "x",
        'a{b="' + "\\n" * 500_000 + '" x} 1',
        "a{" + 'b="' * 300_000 + "} 1",
    ],
    ids=["digits", "timestamp", "blanks", "escapes", "labels"],
)
def test_a_line_without_end_is_refused_in_one_go(line: str) -> None:
    """With a pattern that looks at every split of it, this would take hours."""
    assert parse_sample(line) is None
