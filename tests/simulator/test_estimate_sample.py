"""A sample of prefix trees against exact answers: equal where all is drawn, else within the stated error."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitcurve.cli import main
from hitcurve_simulator.estimate.chains import chains_of
from hitcurve_simulator.estimate.hit_curve import HitCurve, hit_curve_of
from hitcurve_simulator.estimate.sampled_curve import SampledCurve, sampled_curve
from hitcurve_simulator.estimate.tree_sample import TreeSample
from hitcurve_simulator.traces import TraceRow, read_trace
from hitcurve_simulator.vllm import Request

BLOCK = 4
POOLS = (1, 50, 200, 1_000, 5_000, 20_000, None)


def row(number: int, ids: list[int], length: int, adapter: str | None = None) -> TraceRow:
    request = Request(f"r{number}", adapter=adapter, block_contents=tuple(ids), prompt_length=length)
    return TraceRow(number, request, block_ids=ids)


@st.composite
def traffic(draw: st.DrawFn) -> list[TraceRow]:
    chains = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=25))
    rows = []
    for number, ids in enumerate(chains):
        named = [hash(tuple(ids[:end])) % 10**9 for end in range(1, len(ids) + 1)]
        tail = draw(st.integers(0, BLOCK - 1))
        adapter = draw(st.sampled_from([None, "a"]))
        rows.append(row(number, named, len(ids) * BLOCK - tail, adapter))
    return rows


@given(traffic(), st.integers(0, 3))
def test_a_sample_of_everything_is_exact(rows: list[TraceRow], seed: int) -> None:
    sample = TreeSample(1.0, BLOCK, BLOCK, seed=seed)
    sample.take(rows)
    chains = chains_of(rows, BLOCK, BLOCK)
    for sampled, accesses in ((sample.bound(), chains.bound), (sample.engine(), chains.engine)):
        curve, exact = sampled_curve(sampled), hit_curve_of(accesses)
        assert curve.query_tokens == exact.query_tokens
        for pool in (*range(1, exact.largest_pool + 2), None):
            assert curve.rate_in(pool) == exact.rate_in(pool)
            assert curve.rate(pool).error in (0.0, None)


def conversations(seed: int, requests: int) -> list[TraceRow]:
    """Chats that grow, over two system prompts, one of which nearly everybody has."""
    dice = random.Random(seed)
    rows: list[TraceRow] = []
    open_chats: list[list[int]] = []
    for number in range(requests):
        if not open_chats or dice.random() < 0.3:
            system = [1, 2, 3] if dice.random() < 0.8 else [4, 5]
            open_chats.append([*system, 10 * number + 100])
        chat = open_chats[min(int(dice.expovariate(0.2)), len(open_chats) - 1) * -1 - 1]
        chat.extend(10 * number + 101 + place for place in range(dice.randrange(1, 6)))
        rows.append(row(number, list(chat), len(chat) * BLOCK - dice.randrange(0, BLOCK)))
    return rows


def within(curve: SampledCurve, exact: HitCurve) -> list[bool]:
    found = []
    for pool in POOLS:
        rate, truth = curve.rate(pool), exact.rate_in(pool)
        assert rate.value is not None
        assert rate.error is not None
        assert truth is not None
        found.append(abs(rate.value - truth) <= rate.error)
    return found


def test_exact_answers_lie_within_the_stated_error() -> None:
    rows = conversations(seed=1, requests=12_000)
    exact = hit_curve_of(chains_of(rows, BLOCK, BLOCK).engine)
    held: list[bool] = []
    for seed in range(12):
        sample = TreeSample(0.1, BLOCK, BLOCK, seed=seed)
        sample.take(rows)
        sampled = sample.engine()
        assert 0.05 < sampled.drawn.mean() < 0.15
        curve = sampled_curve(sampled)
        held += within(curve, exact)
        errors = [curve.rate(pool).error or 0.0 for pool in POOLS]
        assert 0 < max(errors) < 0.1
    # 95 % are promised; the rates of one sample go together, so that 84 of them are not 84 draws.
    assert sum(held) >= 0.88 * len(held)


@pytest.mark.parametrize("trace", ["conversation", "synthetic"])
def test_public_traces_lie_within_the_stated_error(shared: Path, trace: str) -> None:
    path = shared / "traces" / f"mooncake_fast25_{trace}_trace.jsonl"
    rows = read_trace(path).rows
    exact = hit_curve_of(chains_of(rows, 512, 512).engine)
    held: list[bool] = []
    for seed in range(4):
        sample = TreeSample(0.3, 512, 512, seed=seed)
        sample.take(rows)
        held += within(sampled_curve(sample.engine()), exact)
    assert sum(held) >= 0.88 * len(held)


def test_the_trunk_is_counted_whoever_is_drawn() -> None:
    rows = conversations(seed=2, requests=4_000)
    sample = TreeSample(0.02, BLOCK, BLOCK)
    sample.take(rows)
    sampled = sample.bound()
    assert sampled.accesses.requests == 4_000
    assert set(sampled.trunk[~sampled.drawn].tolist()) <= {2, 3}
    # Everybody's system prompt stays in a pool that holds little else: its hits do not depend on the sample.
    exact = hit_curve_of(chains_of(rows, BLOCK, BLOCK).bound)
    rate = sampled_curve(sampled).rate_in(12)
    assert rate == pytest.approx(exact.rate_in(12), rel=0.1)


def test_portions_name_blocks_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = conversations(seed=3, requests=500)
    exact = hit_curve_of(chains_of(rows, BLOCK, BLOCK).bound)
    monkeypatch.setattr("hitcurve_simulator.estimate.tree_sample.PORTION_ROWS", 7)
    sample = TreeSample(1.0, BLOCK, BLOCK)
    sample.take(rows)
    assert sampled_curve(sample.bound()).rate_in(100) == exact.rate_in(100)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, standard output, standard error of one call."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(["estimate", *map(str, arguments)])
        printed = capsys.readouterr()
        return int(exit_.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    """Two files of equal ids."""
    files = []
    for name in ("one", "two"):
        file = tmp_path / f"{name}.jsonl"
        lines = [
            {"hash_ids": list(one.block_ids or ()), "input_length": one.request.prompt_tokens}
            for one in conversations(seed=4, requests=400)
        ]
        file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"hash_ids": 3}]))
        files.append(file)
    return files


def test_the_answer_has_an_error_beside_every_rate(run: Run, traces: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    options = ("--block-size", BLOCK, "--pool-blocks", 100, "--html", page)
    code, out, err = run(traces[0], "--sample", "0.3", "--seed", "2", *options, "--json")
    assert code == 0, err
    sampled: dict[str, Any] = json.loads(out)
    exact = json.loads(run(traces[0], *options, "--json")[1])
    assert sampled["requests"] == exact["requests"] == 400
    assert sampled["query_tokens"] == exact["query_tokens"]
    assert sampled["skipped_rows"] == exact["skipped_rows"] == 1
    assert sampled["sample"]["share"] == 0.3
    assert 0 < sampled["sample"]["requests"] < 400
    (point,), (true_point,) = sampled["curve"], exact["curve"]
    for name in ("hit_rate", "engine_like_hit_rate"):
        assert abs(point[name] - true_point[name]) <= point[f"{name}_error"] < 0.3
    assert "present pool" in page.read_text()
    code, out, _ = run(traces[0], "--sample", "0.3", "--seed", "2", *options)
    assert (code, "sampled 0.3 of the prefix trees" in out, "1 rows skipped" in out) == (0, True, True)


def test_ids_of_several_files_are_kept_apart_or_shared(run: Run, traces: list[Path]) -> None:
    rates = {}
    for ids in ("file", "shared"):
        for sample in ((), ("--sample", "1")):
            code, out, err = run(*traces, "--block-size", BLOCK, "--ids", ids, *sample, "--json")
            assert code == 0, err
            rates[ids, bool(sample)] = json.loads(out)["ceiling"]["token"]
    assert rates["file", True] == rates["file", False]
    assert rates["shared", True] == rates["shared", False]
    assert rates["shared", True] > rates["file", True]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--sample", "0.5", "--split", "tenant"), "--sample answers ceiling and curve; leave out"),
        (("--sample", "0"), "--sample 0 is too small"),
        (("--sample", "2"), "--sample"),
    ],
)
def test_wrong_use_of_a_sample_is_one_sentence(
    run: Run, traces: list[Path], options: tuple[str, ...], sentence: str
) -> None:
    code, out, err = run(traces[0], "--block-size", BLOCK, *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err
