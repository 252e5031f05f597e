"""The tutorial, command by command in one shell, on ports of its own; what it promises is looked for."""

import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

DEADLINE_S = 90.0
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALL = "make venv"
"""The only command that is left out: what these tests run in was made by it."""


class Shell:
    """One bash that is told the commands of the page, with the page's ports replaced."""

    def __init__(self, folder: Path, repository: Path, ports: dict[str, str]) -> None:
        self._ports = ports
        self._shell = subprocess.Popen(
            ["bash", "--norc", "-m"],
            cwd=folder,
            env={**os.environ, "PATH": f"{repository / '.venv' / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and output of a command; of one in the background, what starting it said."""
        for written, own in self._ports.items():
            command = command.replace(written, own)
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f'{command}\necho "\nended with $?"\n')
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            if line.startswith("ended with "):
                return int(line.split()[-1]), "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended in: {command}")

    def close(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write("kill $(jobs -p); wait; exit\n")
        self._shell.stdin.close()
        self._shell.wait(DEADLINE_S)
        assert self._shell.stdout is not None
        self._shell.stdout.close()


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def console_commands(page: Path) -> list[str]:
    blocks = CONSOLE.findall(page.read_text(encoding="utf-8"))
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def ports() -> dict[str, str]:
    return {":8000": f":{free_port()}", "--port 8000": f"--port {free_port()}", ":9477": f":{free_port()}"}


@pytest.fixture
def shell(tmp_path: Path, repository: Path, ports: dict[str, str]) -> Iterator[Shell]:
    engine = free_port()
    ports[":8000"], ports["--port 8000"], ports["%3A8000"] = f":{engine}", f"--port {engine}", f"%3A{engine}"
    running = Shell(tmp_path, repository, ports)
    yield running
    running.close()


def wait(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            found = condition()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"{what} never came")


def test_the_tutorial_gives_what_it_says(repository: Path, shell: Shell, ports: dict[str, str]) -> None:
    exporter = f"http://127.0.0.1{ports[':9477']}"
    commands = [one for one in console_commands(repository / "docs" / "tutorial.md") if one != INSTALL]
    remaining = iter(commands)

    def state() -> tuple[str, str | None]:
        with urllib.request.urlopen(f"{exporter}/api/v1/engines", timeout=10) as answer:
            (engine,) = json.load(answer)["engines"]
        return engine["state"]["state"], engine["state"]["cause"]

    def following(start: str) -> tuple[int, str]:
        command = next(remaining)
        assert command.startswith(start), command
        return shell.run(command)

    assert following("export PATH=")[0] == 0
    assert "hitcurve COMMAND" in following("hitcurve --help")[1]
    following("hitcurve engine")
    engine = f"http://127.0.0.1{ports[':8000']}"
    wait(lambda: urllib.request.urlopen(f"{engine}/health", timeout=5).status == 200, "the engine")
    code, said = following("hitcurve doctor")
    assert (code, said.rstrip().endswith("verdict: ok")) == (0, True), said
    following("hitcurve exporter")
    wait(lambda: state() == ("no_traffic", None) or state()[0] == "cold", "the exporter")
    following("hitcurve load shared-system-prompt")
    wait(lambda: state()[0] == "steady", "a steady curve")
    code, said = following("hitcurve watch")
    assert (code, "steady" in said) == (0, True), said

    assert following("curl -s -X POST")[1].startswith('{"success":true}')
    wait(lambda: state()[1] == "reset", "the reset")
    code, said = following("hitcurve watch")
    assert "(reset)" in said or "steady" in said
    wait(lambda: state()[0] == "steady", "a steady curve again")

    following("hitcurve load unique")
    wait(lambda: state()[0] in ("collapsed", "degraded") and state()[1] == "pool_pressure", "pool pressure")
    code, said = following("hitcurve watch")
    assert (code, "(pool_pressure)" in said) == (1, True), said

    assert following("curl -s")[0] == 0
    code, said = following("python -c")
    assert code == 0
    assert "'cause': 'pool_pressure'" in said
    assert following("hitcurve load shared-system-prompt")[0] == 0
    code, said = following("hitcurve estimate")
    assert (code, "400 requests" in said) == (0, True), said
    following("kill")
    assert list(remaining) == []
