"""Texts of others on a terminal."""

import pytest

from hitcurve.cli import main
from hitcurve.printable import printable


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    assert printable("a\x1b[2J\x07\n\x9b31m\ud800é模") == "a\\x1b[2J\\x07\\n\\x9b31m\\ud800é模"


def test_an_error_spells_it_out_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["watch\x1b[31m"])
    assert capsys.readouterr().err.startswith("hitcurve: there is no command 'watch\\x1b[31m'")
