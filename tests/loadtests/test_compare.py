"""``hitcurve load compare`` and ``hitcurve load overhead`` as a person runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.compare.difference import difference
from hitcurve_loadtests.compare.pairs import read_load
from hitcurve_loadtests.overhead.slices import Slice, overhead, run_slice


def write(folder: Path, ttfts: list[float], cached: int | None, **summary: Any) -> Path:
    folder.mkdir()
    values = {"name": "load", "profile": "unique", "seed": 1, "api": "completions", **summary}
    (folder / "load-load.json").write_text(json.dumps(values))
    lines = [
        {
            "load": "load",
            "group": f"g{number}",
            "number": number,
            "worker": 0,
            "outcome": "ok",
            "ttft_s": ttft,
            "tpot_s": None,
            "duration_s": 2 * ttft,
            "prompt_tokens": 100,
            "cached_tokens": cached,
        }
        for number, ttft in enumerate(ttfts, start=1)
    ]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    return folder


def test_pairs_are_told_by_number_whatever_the_order_of_their_ends(tmp_path: Path) -> None:
    one = write(tmp_path / "a", [0.1, 0.2, 0.3, 0.4] * 30, 50)
    other = write(tmp_path / "b", [0.12, 0.24, 0.36, 0.48] * 20, 60)
    seen = difference(read_load(one), read_load(other))
    assert (seen["pairs"], seen["left_out"]) == (80, 40)
    # Every pair has the ratio 1.2, so every resample has it.
    ratio = {"value": pytest.approx(1.2), "low": pytest.approx(1.2), "high": pytest.approx(1.2)}
    assert seen["ttft_s"] == {
        "a_mean": pytest.approx(0.25),
        "b_mean": pytest.approx(0.3),
        "pairs": 80,
        "ratio": ratio,
    }
    assert seen["tpot_s"]["ratio"]["value"] is None
    assert seen["hit_rate"] == {
        "a": 0.5,
        "b": 0.6,
        "pairs": 80,
        "difference": {"value": pytest.approx(0.1), "low": pytest.approx(0.1), "high": pytest.approx(0.1)},
    }


def test_unknown_cached_tokens_are_no_rate(tmp_path: Path) -> None:
    seen = difference(
        read_load(write(tmp_path / "a", [0.1] * 9, None)), read_load(write(tmp_path / "b", [0.1] * 9, 5))
    )
    assert (seen["hit_rate"]["a"], seen["hit_rate"]["difference"]["value"]) == (None, None)


def test_loads_of_other_seeds_and_orders_are_refused(tmp_path: Path) -> None:
    one = read_load(write(tmp_path / "a", [0.1], 1))
    with pytest.raises(
        UsageError, match=r"^the loads differ in their seed \(1 and 2\), so no request has its pair;"
    ):
        difference(one, read_load(write(tmp_path / "b", [0.1], 1, seed=2)))
    other = write(tmp_path / "c", [0.1], 1)
    text = (other / "requests.jsonl").read_text()
    (other / "requests.jsonl").write_text(text.replace('"g1"', '"g7"'))
    with pytest.raises(UsageError, match=r"^the loads sent their requests in another order;"):
        difference(one, read_load(other))
    with pytest.raises(UsageError, match=r"must hold one load-NAME\.json and has none"):
        read_load(tmp_path)


def test_two_runs_beside_each_other(engine: Any, load: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        load(
            "unique", "--host", engine.url, "--rate", 100, "--requests", 30, "--seed", 4, "--out", tmp_path / name
        )
    ended = load("compare", tmp_path / "a", tmp_path / "b")
    assert ended.code == 0, ended.err
    assert "30 pairs, 0 requests without a pair" in ended.out
    ended = load("compare", tmp_path / "a", tmp_path / "b", "--fail-above", 0.0001, "--json")
    assert ended.code == 1
    assert ended.err.startswith(f"hitcurve: TTFT of {tmp_path / 'b'} is at least ")
    assert ended.summary["pairs"] == 30


def test_slices_alternate_and_drift_cancels() -> None:
    asked: list[tuple[str, int]] = []

    def run(side: str, seed: int) -> Slice:
        asked.append((side, seed))
        # The machine gets slower from slice to slice, and B is half as fast as A.
        speed = 0.9 ** len(asked) * (1.0 if side == "a" else 0.5)
        return Slice(speed, speed, 1 / speed, 0.0, "ok")

    seen = overhead(10, 2, 100, run, lambda step: None)
    assert asked[:6] == [("a", 100), ("b", 100), ("b", 101), ("a", 101), ("a", 102), ("b", 102)]
    assert seen["pairs"] == 10
    assert seen["throughput_ratio"]["value"] == pytest.approx(0.5)
    assert seen["ttft_ratio"]["value"] == pytest.approx(2.0)
    assert seen["throughput_ratio"]["low"] < 0.5 < seen["throughput_ratio"]["high"]


def test_overhead_on_two_engines(engine: Any, load: Any) -> None:
    ended = load(
        *("overhead", "--a", engine.url, "--b", engine.url, "--slices", 2, "--slice-s", 0.5, "--warm-up", 0),
        *("--users", 1, "--seed", 3, "--json"),
    )
    assert ended.code == 0, ended.err
    assert (ended.summary["pairs"], ended.summary["verdict"]) == (2, "ok")
    assert 0 < ended.summary["throughput_ratio"]["low"] <= ended.summary["throughput_ratio"]["high"]
    firsts = [exchange.body["prompt"][:16] for exchange in engine.exchanges]
    assert firsts.count(firsts[0]) == 2


def test_an_engine_that_is_not_there_is_said_once() -> None:
    with pytest.raises(
        EnvironmentFailed, match=r"^no engine answers at http://127.0.0.1:1 \(connection refused\)"
    ):
        run_slice("unique", "http://127.0.0.1:1", [], 1, 0.5)


def test_a_slice_that_does_not_end_is_told_and_ended(engine: Any) -> None:
    with pytest.raises(EnvironmentFailed, match=r"a slice of 0\.1 s on http://127\S+ had not ended after 0\.1 s"):
        run_slice("unique", engine.url, [], 1, 0.1, beyond_s=0.0)


@pytest.mark.parametrize(
    "line",
    [
        '{"load": "load", "gro',
        '"load"',
        "[]",
        "null",
        "{}",
        '{"load": "load", "group": "g1", "outcome": "ok"}',
        "",
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    folder = write(tmp_path / "a", [0.1, 0.2], 50)
    with (folder / "requests.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UsageError) as told:
        read_load(folder)
    assert str(told.value) == (
        f"{folder}/requests.jsonl:3 is no request of a load: the file was cut off or changed there; take the line "
        "out, or run the load again."
    )
