"""``--help`` in windows of any width: no name of an option is cut, no line is wider than the window."""

import json
import os
import subprocess
import sys

import pytest

from hitcurve.help_text import PANEL_WIDTH

PROGRAM = """
import contextlib, importlib, io, json
import typer.main
from hitcurve.cli import main
from hitcurve.commands import COMMANDS

def said(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try: main([*words, "--help"])
        except SystemExit as ended: assert ended.code == 0, words
    return out.getvalue()

def pages(command, *words):
    options = [name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")]
    yield words, options, said(*words)
    for name, below in getattr(command, "commands", {}).items():
        yield from pages(below, *words, name)

found = []
for name, one in COMMANDS.items():
    if name == "load":
        for part in ("command", "compare.command", "overhead.command"):
            words = ("load", *part.split(".")[:-1])
            module = importlib.import_module(f"hitcurve_loadtests.{part}")
            found += pages(typer.main.get_command(module.app), *words)
    else:
        found += pages(typer.main.get_command(importlib.import_module(one.module).app), name)
print(json.dumps(found))
"""


@pytest.mark.parametrize("columns", [80, PANEL_WIDTH])
def test_every_option_is_shown_whole_and_within_the_window(columns: int) -> None:
    environment = {**os.environ, "COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns), "NO_COLOR": "1"}
    # In a process of its own, since importing Locust patches the process it happens in.
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    )
    pages = json.loads(ended.stdout)
    assert len(pages) > 20
    for words, options, text in pages:
        assert [name for name in options if name not in text] == [], words
        assert max(map(len, text.splitlines())) <= columns, words
        assert "\x1b" not in text, words


def test_panels_are_drawn_where_there_is_room() -> None:
    for columns, drawn in ((PANEL_WIDTH - 1, False), (PANEL_WIDTH, True)):
        environment = {**os.environ, "COLUMNS": str(columns)}
        command = [sys.executable, "-m", "hitcurve", "doctor", "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        assert ("╭" in text) is drawn
