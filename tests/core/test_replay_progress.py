"""``hitcurve replay`` on a terminal shows how far it is, and elsewhere prints nothing but its answer."""

from pathlib import Path

import pytest

from hitcurve import progress
from hitcurve.cli import main


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals_however_long_the_path(
    terminal: bool,
    shared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if terminal:
        # What makes rich take any stream for a terminal.
        monkeypatch.setenv("FORCE_COLOR", "1")
    recording = tmp_path / ("recorded-" * 20)
    recording.symlink_to(shared / "cases" / "EXP-08")
    with pytest.raises(SystemExit) as left:
        main(["replay", str(recording), "--json"])
    printed = capsys.readouterr()
    assert (left.value.code, printed.out[:1]) == (0, "{")
    assert ("replaying" in printed.err and "0/3" in printed.err) if terminal else printed.err == ""


def test_a_recording_that_is_read_twice_is_never_more_than_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "EVERY", 1)
    with progress.progress_over("replaying", 2) as on_scrape:
        for _ in range(3):
            on_scrape()
    last = capsys.readouterr().err.rpartition("replaying")[2]
    assert "1/2" in last
