"""The table of ``hitcurve replay``: engines of a target and targets of a recording together, as ratio of sums."""

import json
from pathlib import Path

import pytest

from hitcurve.cli import main


def page(*engines: tuple[int, int]) -> str:
    return "".join(
        f'vllm:prefix_cache_{name}_total{{engine="{engine}",model_name="m"}} {value}\n'
        for engine, pair in enumerate(engines)
        for name, value in zip(("queries", "hits"), pair, strict=True)
    )


def printed(folder: Path, pages: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    manifest = []
    for target, texts in pages.items():
        for number, text in enumerate(texts):
            name = f"{len(manifest)}.prom"
            (folder / name).write_text(text)
            manifest.append({"at_s": 15 * number, "target": target, "status": 200, "file": name})
    manifest.sort(key=lambda one: one["at_s"])
    (folder / "scrapes.json").write_text(json.dumps(manifest))
    with pytest.raises(SystemExit):
        main(["replay", str(folder)])
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_engines_and_targets_have_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {
        "http://a": [page((0, 0), (0, 0)), page((100, 90), (900, 90))],
        "http://b": [page((0, 0)), page((1000, 0))],
    }
    lines = printed(tmp_path, pages, capsys)
    assert lines[2:5] == [
        ["0", "cold", "0.900", "100", "0", "█"],
        ["1", "cold", "0.100", "900", "0", "▁"],
        ["all", "cold", "0.180", "1,000", "0", "▂"],
    ]
    assert "all" not in {line[0] for line in lines[5:-1] if line}
    assert lines[-1] == ["all", "targets:", "hit", "rate", "0.090,", "2,000", "tokens", "looked", "up"]


def test_blocks_of_unknown_size_have_no_volume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = [page((0, 0)).replace("prefix", "gpu_prefix"), page((100, 50)).replace("prefix", "gpu_prefix")]
    assert printed(tmp_path, {"http://a": old}, capsys)[2][2:6] == ["no", "value", "no", "value"]
