"""What is no page is refused with a reason, and nothing else ever comes out of the reader."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitcurve.errors import HitcurveError
from hitcurve.readers import PageRefused, read_page

PAGE = """\
# HELP vllm:prefix_cache_queries_total Prefix lookups, counted in tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 40.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0"} 1.0
"""
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def refused(body: bytes | str, content_type: str | None = None) -> str:
    with pytest.raises(PageRefused) as found:
        read_page(body, content_type, at_s=0, monotonic_s=0)
    assert isinstance(found.value, HitcurveError)
    assert str(found.value) == found.value.reason
    return found.value.reason


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "is empty"),
        (" \n\t\n", "is empty"),
        ("<!DOCTYPE html>\n<html><body>Not Found</body></html>\n", "is HTML, not metrics; the address probably"),
        ("\n  <html></html>", "is HTML"),
        ('{"detail": "Not Found"}', "is JSON"),
        ("Internal Server Error", "is not a metrics page in the Prometheus text format"),
        (b"\x1f\x8b\x08\x00\xff\xfe", "is packed with gzip; unpack it"),
        (b"vllm:\xff\xfe 1\n", "is not UTF-8 text"),
        (PAGE[:-1], "is cut off: it does not end with a line feed"),
        (PAGE.replace(" 40.0", " forty"), "line 5 is not a sample"),
        (PAGE.replace('"} 100.0', " 100.0"), "line 3 is not a sample"),
        ("up 1\n", "no prefix-cache counters (looked for vllm:prefix_cache_queries_total"),
        ('vllm:num_requests_running{engine="0"} 1\n', "has vLLM metrics but no prefix-cache counters"),
        ("hitcurve_exporter_targets 2\n", "is that of a hitcurve exporter, not of an engine; name the engines"),
        ("process_start_time_seconds 1.7e9\n", "prints none with --disable-log-stats"),
    ],
)
def test_refusals(body: bytes | str, words: str) -> None:
    assert words in refused(body)


def test_openmetrics_must_end_with_eof() -> None:
    assert "does not end with '# EOF'" in refused(PAGE, OPENMETRICS)
    assert "does not end with '# EOF'" in refused(PAGE + "x # EOF\n", OPENMETRICS)
    for end in ("# EOF\n", "# EOF", "# EOF\r\n"):
        assert len(read_page(PAGE + end, OPENMETRICS, at_s=0, monotonic_s=0)) == 1
    assert len(read_page(PAGE + "# EOF", None, at_s=0, monotonic_s=0)) == 1


def test_a_byte_order_mark_hides_nothing() -> None:
    first_line = PAGE[PAGE.index("\nvllm") + 1 :]
    (sample,) = read_page(b"\xef\xbb\xbf" + first_line.encode(), None, at_s=0, monotonic_s=0)
    assert sample.lookups is not None


@given(st.integers(0, len(PAGE) - 1))
def test_a_cut_page_is_refused_or_whole_up_to_the_cut(end: int) -> None:
    """A cut between lines that leaves the pair whole cannot be seen in the classic format; any other must be."""
    cut = PAGE[:end]
    if cut.endswith("\n") and "hits_total{" in cut:
        (sample,) = read_page(cut, None, at_s=0, monotonic_s=0)
        assert sample.lookups is not None
        assert (sample.lookups.queries, sample.lookups.hits) == (100, 40)
    elif cut.endswith("\n") and "queries_total{" in cut:
        assert "is incomplete" in refused(cut)
    else:
        assert refused(cut)


@settings(max_examples=200)
@given(st.data())
def test_nothing_but_a_refusal_comes_out_of_a_damaged_page(data: st.DataObject) -> None:
    body = bytearray(PAGE.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        samples = read_page(bytes(body), None, at_s=0, monotonic_s=0)
    except PageRefused:
        return
    assert samples


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)), st.one_of(st.none(), st.text(max_size=20)))
def test_nothing_but_a_refusal_comes_out_of_anything(body: bytes | str, content_type: str | None) -> None:
    assert refused(body, content_type)


def test_more_engines_than_allowed_are_refused() -> None:
    lines = [
        f'vllm:prefix_cache_{name}_total{{engine="{engine}"}} 1\n'
        for engine in range(1025)
        for name in ("queries", "hits")
    ]
    assert refused("".join(lines)) == "The page shows 1025 engines, more than the 1024 allowed."


def test_every_page_of_the_cases_is_read(shared: Path) -> None:
    pages = sorted((shared / "cases").glob("EXP-*/*.prom"))
    assert len(pages) > 50
    for page in pages:
        assert read_page(page.read_bytes(), None, at_s=0, monotonic_s=0), page


def test_engines_that_look_alike_in_short_have_names_of_their_own() -> None:
    lines = []
    for labels in ('a="x/y",b="z"', 'a="x",b="y/z"', 'a="x",b="z"', 'a="",b="y/z"', 'b="y/z"'):
        lines += [
            f"vllm:prefix_cache_{name}_total{{{labels}}} {count}" for name, count in (("queries", 10), ("hits", 5))
        ]
    page = "".join(f"{line}\n" for line in lines)
    samples = read_page(page, "text/plain", at_s=0.0, monotonic_s=0.0)
    assert [sample.engine for sample in samples] == ["x/y/z", "x/y/z#2", "x/z", "-/y/z"]
    assert dict(samples[3].labels) == {"b": "y/z"}
