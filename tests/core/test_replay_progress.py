"""``hitcurve replay`` on a terminal shows how far it is, and elsewhere prints nothing but its answer."""

from pathlib import Path

import pytest

from hitcurve.cli import main


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals(
    terminal: bool, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if terminal:
        # What makes rich take any stream for a terminal.
        monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(SystemExit) as left:
        main(["replay", str(shared / "cases" / "EXP-08"), "--json"])
    printed = capsys.readouterr()
    assert (left.value.code, printed.out[:1]) == (0, "{")
    assert ("replaying" in printed.err and "0/3" in printed.err) if terminal else printed.err == ""
