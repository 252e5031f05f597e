"""``hitcurve load --parquet``: requests as columns."""

from pathlib import Path
from typing import Any

import pytest


def test_requests_become_columns(engine: Any, load: Any, tmp_path: Path, read_lines: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow comes with the extra 'parquet'")
    words = ["unique", "--host", engine.url, "--users", 1, "--requests", 3, "--out", tmp_path, "--parquet"]
    for name in ("one", "two"):
        assert load(*words, "--name", name).code == 0
    table = pyarrow.read_table(tmp_path / "requests-two.parquet")
    assert table.to_pylist() == [line for line in read_lines(tmp_path / "requests.jsonl") if line["load"] == "two"]
    assert str(table.schema.field("prompt_tokens").type) == "int32"


@pytest.mark.parametrize("left", [b'{"load": "earlier", "gro', b"7", b"{}", b"\xff"])
def test_a_line_that_another_load_left_unfinished_is_named(
    engine: Any, load: Any, tmp_path: Path, left: bytes
) -> None:
    pytest.importorskip("pyarrow.parquet", reason="pyarrow comes with the extra 'parquet'")
    (tmp_path / "requests.jsonl").write_bytes(left + b"\n")
    words = ["unique", "--host", engine.url, "--users", 1, "--requests", 1, "--out", tmp_path, "--parquet"]
    ended = load(*words)
    assert (ended.code, ended.err.splitlines()[-1]) == (
        3,
        f"hitcurve: {tmp_path}/requests.jsonl:1 is no request of a load: the file was cut off or changed there; "
        "take the line out, or run the load again.",
    )
    assert not list(tmp_path.glob("*.parquet*"))
