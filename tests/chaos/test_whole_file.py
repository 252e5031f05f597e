"""Files of a run folder are there whole or not at all."""

from pathlib import Path

import pytest

from hitcurve_chaos.whole_file import write_whole


def test_a_file_that_cannot_be_written_whole_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    write_whole(path, "first")
    (tmp_path / "verdicts.json.part").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(path, "second")
    assert path.read_text() == "first"
    (tmp_path / "verdicts.json.part").rmdir()
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", "text")
    assert {one.name for one in tmp_path.iterdir()} == {"verdicts.json", "folder"}
