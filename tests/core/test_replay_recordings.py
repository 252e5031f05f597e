"""Recordings that are odd as a whole: none readable, out of order, an engine missing for a scrape."""

import json
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

TARGET = "http://a:8000/metrics"


def page(**engines: tuple[int, int]) -> str:
    lines = []
    for name, values in engines.items():
        labels = f'{{engine="{name[1:]}",model_name="m"}}'
        for counter, value in zip(("queries", "hits"), values, strict=True):
            lines.append(f"vllm:prefix_cache_{counter}_total{labels} {value}")
    return "\n".join(lines) + "\n"


def replay(folder: Path, scrapes: list[tuple[float, str]], capsys: Any) -> tuple[int, Any, str]:
    manifest = []
    for number, (at_s, text) in enumerate(scrapes):
        (folder / f"{number}.prom").write_text(text)
        manifest.append({"at_s": at_s, "target": TARGET, "status": 200, "file": f"{number}.prom"})
    (folder / "scrapes.json").write_text(json.dumps(manifest))
    with pytest.raises(SystemExit) as left:
        main(["replay", str(folder), "--json"])
    printed = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, json.loads(printed.out), printed.err


def test_a_recording_without_one_readable_page_is_unreadable_input(tmp_path: Path, capsys: Any) -> None:
    code, document, err = replay(tmp_path, [(0, "<html>"), (15, "<html>")], capsys)
    assert code == 2
    assert [failed["at_s"] for failed in document["targets"][TARGET]["failed_scrapes"]] == [0, 15]
    assert err.startswith(f"hitcurve: no page of {tmp_path} could be read: ")
    assert err.count("\n") == 1


def test_time_that_goes_back_is_said(tmp_path: Path, capsys: Any) -> None:
    scrapes = [(30.0, page(e0=(300, 30))), (15.0, page(e0=(200, 20))), (45.0, page(e0=(400, 60)))]
    code, document, err = replay(tmp_path, scrapes, capsys)
    assert code == 0
    assert err == (
        f"hitcurve: entry 2 of {TARGET} is 15 s before the one above it; nothing is joined over it, "
        "list the scrapes in order of time.\n"
    )
    intervals = document["targets"][TARGET]["intervals"]
    assert [(one["from_s"], one["to_s"], one["queries"]) for one in intervals] == [(15, 45, 200)]


def test_intervals_of_a_target_never_overlap(tmp_path: Path, capsys: Any) -> None:
    scrapes = [
        (0.0, page(e0=(0, 0), e1=(0, 0))),
        (15.0, page(e0=(100, 50))),
        (30.0, page(e0=(200, 100), e1=(20, 0))),
    ]
    code, document, err = replay(tmp_path, scrapes, capsys)
    assert (code, err) == (0, "")
    target = document["targets"][TARGET]
    assert [(one["from_s"], one["to_s"], one["queries"], one["hits"]) for one in target["intervals"]] == [
        (0, 15, 100, 50),
        (15, 30, 120, 50),
    ]
    assert [(one["from_s"], one["to_s"], one["queries"]) for one in target["engines"]["1"]["intervals"]] == [
        (0, 30, 20)
    ]
