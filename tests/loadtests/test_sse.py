"""Framing of server-sent events."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve_loadtests.sse import EventReader

ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])
NOISE = st.sampled_from([b": a comment", b"event: message", b"id: 7", b"retry: 10"])


def in_pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


@given(
    texts=st.lists(st.text(), max_size=6),
    ending=ENDINGS,
    noise=st.lists(NOISE, max_size=2),
    space=st.booleans(),
    cuts=st.lists(st.integers(min_value=0), max_size=12),
)
def test_however_the_bytes_are_cut_the_events_are_the_same(
    texts: list[str], ending: bytes, noise: list[bytes], space: bool, cuts: list[int]
) -> None:
    payloads = [json.dumps(text).encode() for text in texts]
    stream = b"".join(
        b"".join(line + ending for line in [*noise, (b"data: " if space else b"data:") + payload, b""])
        for payload in payloads
    )
    reader = EventReader()
    events = [event for piece in in_pieces(stream, cuts) for event in reader.feed(piece)]
    assert events == payloads
    assert reader.rest() is None


@pytest.mark.parametrize(
    ("stream", "events", "rest"),
    [
        (b"data: a\ndata: b\n\n", [b"a\nb"], None),
        (b"data:  two spaces\n\n", [b" two spaces"], None),
        (b"event: ping\n\n: only a comment\n\n", [], None),
        (b"data\n\n", [b""], None),
        (b"data: half", [], b"half"),
        (b"data: no blank line\n", [], b"no blank line"),
        (b"data: a\n\nid: 3\n", [b"a"], None),
        (b"datax: 1\n\n", [], None),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"], None),
        (b"event: ping\ndata: a\n\n", [b"a"], None),
        (b"event: ping", [], None),
    ],
)
def test_lines_mean_what_the_standard_says(stream: bytes, events: list[bytes], rest: bytes | None) -> None:
    reader = EventReader()
    assert (reader.feed(stream), reader.rest()) == (events, rest)
