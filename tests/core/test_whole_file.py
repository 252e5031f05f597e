"""Files are there whole or not at all, and nothing is left beside them."""

import errno
import os
from pathlib import Path

import pytest

from hitcurve.whole_file import whole_file, write_whole


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    write_whole(path, "first")
    with whole_file(path) as draft:
        draft.write_text("sécond", encoding="utf-8")
        assert path.read_text() == "first"
    assert path.read_bytes() == "sécond".encode()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_what_breaks_the_writing_leaves_the_file_as_it_was(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    write_whole(path, "first")
    with pytest.raises(type(error)):
        break_off(path, error)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def break_off(path: Path, error: BaseException) -> None:
    with whole_file(path) as draft:
        draft.write_text("sec")
        raise error


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", "text")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_path_without_a_name_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"-> '\.'"):
        write_whole(Path(), "text")
    assert list(tmp_path.iterdir()) == []
