"""Every command that the documentation shows exists: sub-commands, options, targets, scenarios, files."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:hitcurve|make|python|\.venv/bin/hitcurve) [^`]+)`", re.DOTALL)
SHELL_KINDS = ("", "console", "bash", "sh")
COMMENT = re.compile(r"\s+# .*|^# .*")
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*\s+")
BETWEEN_COMMANDS = re.compile(r"\s*(?:\|\||&&|\||;|\s--\s(?=hitcurve))\s*")
PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_-]*…?|…|\.\.\.|<.*>")
TREE = """
import importlib, json
import typer.main
from hitcurve.commands import COMMANDS

def tree(command):
    below = getattr(command, "commands", {})
    options = [name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")]
    return {"options": options, "below": {name: tree(one) for name, one in below.items()}}

def found(module):
    return tree(typer.main.get_command(importlib.import_module(module).app))

# The load's own module puts two programs beside the load itself.
trees = {name: found(one.module) for name, one in COMMANDS.items() if name != "load"}
trees["load"] = found("hitcurve_loadtests.command")
trees["load"]["below"] = {name: found(f"hitcurve_loadtests.{name}.command") for name in ("compare", "overhead")}
print(json.dumps(trees))
"""


@dataclass(frozen=True, slots=True)
class Known:
    """What commands may name."""

    commands: Mapping[str, Any]
    targets: frozenset[str]
    scenarios: frozenset[str]
    root: Path


@pytest.fixture(scope="module")
def known(repository: Path) -> Known:
    # A process of its own: the load generator's commands replace parts of the standard library.
    printed = subprocess.run([sys.executable, "-c", TREE], capture_output=True, text=True, check=True).stdout
    makefile = (repository / "Makefile").read_text()
    scenarios = {page.stem for page in (repository / "docs/scenarios").glob("*.md")}
    suites = {suite.stem for suite in (repository / "chaos/hitcurve_chaos/suites").glob("*.yaml")}
    return Known(
        json.loads(printed),
        frozenset(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE)),
        frozenset(scenarios | suites),
        repository,
    )


def pages(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "examples").glob("*.md")])


def commands_of(text: str) -> Iterator[str]:
    """The commands in shell blocks and in inline code, without prompts, comments and assignments before them."""
    lines = []
    for kind, body in FENCE.findall(text):
        if kind in SHELL_KINDS:
            joined = body.replace("\\\n", " ")
            lines += [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    lines += [" ".join(code.split()) for code in INLINE.findall(FENCE.sub("", text))]
    for line in lines:
        for part in BETWEEN_COMMANDS.split(COMMENT.sub("", line)):
            while found := ASSIGNMENT.match(part):
                part = part[found.end() :]
            yield part


def words_of(command: str) -> list[str]:
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    ends = [at for at, word in enumerate(words) if word in (">", "2>&1", "&", "<") or word.startswith(">")]
    return [word.strip("[](),.") if word.strip("[](),.") else word for word in words[: min(ends, default=None)]]


def hitcurve_problems(words: list[str], known: Known) -> Iterator[str]:
    first, *rest = words or [""]
    if first.startswith("-") or PLACEHOLDER.fullmatch(first):
        return
    if first not in known.commands:
        yield f"there is no command '{first}'"
        return
    here, positional = known.commands[first], True
    for word in rest:
        if word == "--":
            return
        if word.startswith("-") and not re.fullmatch(r"-|-?\d.*", word):
            positional = False
            if word.partition("=")[0] not in (*here["options"], "--help"):
                yield f"there is no option '{word}'"
        elif positional and word in here["below"]:
            here = here["below"][word]
        elif positional and here["below"] and first != "load" and not placeholder(word):
            yield f"there is no sub-command '{word}'"
            return
        elif positional and words[:2] == ["chaos", "run"] and not (known_scenario(word, known) or "." in word):
            yield f"there is no scenario or suite '{word}'"


def known_scenario(word: str, known: Known) -> bool:
    return word in known.scenarios or placeholder(word)


def placeholder(word: str) -> bool:
    return PLACEHOLDER.fullmatch(word) is not None or "|" in word or "…" in word


def problems(command: str, known: Known) -> Iterator[str]:
    words = words_of(command)
    if not words:
        return
    program, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    if program == "hitcurve":
        yield from hitcurve_problems(arguments, known)
    elif program == "make":
        goals = [word for word in arguments if "=" not in word and not placeholder(word)]
        yield from (f"there is no target '{goal}'" for goal in goals if goal not in known.targets)
    elif program in ("python", "python3") and arguments:
        file = arguments[0]
        if file.endswith(".py") and not placeholder(file) and not (known.root / file).is_file():
            yield f"there is no file '{file}'"


def test_every_command_shown_exists(known: Known) -> None:
    found, looked_at = [], 0
    for page in pages(known.root):
        for command in commands_of(page.read_text(encoding="utf-8")):
            looked_at += command.startswith(("hitcurve ", ".venv/bin/hitcurve ", "make "))
            found += [f"{page.relative_to(known.root)}: {one}: {command}" for one in problems(command, known)]
    assert looked_at > 200
    assert found == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("hitcurve dochter http://127.0.0.1", "there is no command 'dochter'"),
        ("hitcurve load unique --hots http://127.0.0.1", "there is no option '--hots'"),
        ("hitcurve chaos rum smoke", "there is no sub-command 'rum'"),
        ("hitcurve chaos run smoke reset-idel --dry-run", "there is no scenario or suite 'reset-idel'"),
        ("hitcurve chaos run smoke --targets t.yaml --dru-run", "there is no option '--dru-run'"),
        ("make vllm-venv", "there is no target 'vllm-venv'"),
        ("python tests/benchmarks/nothing.py", "there is no file 'tests/benchmarks/nothing.py'"),
    ],
)
def test_what_does_not_exist_is_found(command: str, problem: str, known: Known) -> None:
    assert list(problems(command, known)) == [problem]


def test_commands_are_found_wherever_they_stand() -> None:
    text = (
        "see `hitcurve load\nunique`\n\n```console\n$ A=b hitcurve doctor x \\\n    --json | jq .   # why\n```\n"
        "```yaml\nrun: hitcurve nothing\n```\n```\nmake demo && make test\n```\n"
    )
    assert [words_of(command) for command in commands_of(text)] == [
        ["hitcurve", "doctor", "x", "--json"],
        ["jq", "."],
        ["make", "demo"],
        ["make", "test"],
        ["hitcurve", "load", "unique"],
    ]
