"""The ``hitcurve`` command itself: dispatch, one sentence per error, exit codes."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Annotated

import pytest
import typer

from hitcurve import __version__
from hitcurve.cli import main
from hitcurve.commands import COMMANDS, Command
from hitcurve.errors import BadFinding, EnvironmentFailed, HitcurveError, UsageError

Answer = Callable[..., tuple[int, str, str]]
Install = Callable[[Callable[..., object]], None]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Answer:
    """Run the command in this process: exit code, stdout, stderr."""

    def answer(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main(words)
        printed = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, printed.out, printed.err

    return answer


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a function the command ``probe``."""

    def as_probe(function: Callable[..., object]) -> None:
        module = ModuleType("probe_command")
        module.app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)  # type: ignore[attr-defined]
        module.app.command()(function)
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setitem(COMMANDS, "probe", Command("probe_command", "cli", "A probe."))

    return as_probe


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


def test_help_lists_every_command_on_stdout(run: Answer) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for name, command in COMMANDS.items():
        assert any(line.split() == [name, *command.help.split()] for line in lines), name
    assert run("-h") == run("help") == (0, out, "")


def test_no_command_shows_the_same_and_is_wrong_usage(run: Answer) -> None:
    _, help_text, _ = run("--help")
    assert run() == (2, help_text, "")


def test_version(run: Answer) -> None:
    assert run("--version") == (0, f"hitcurve {__version__}\n", "")


def test_an_unknown_command_is_told_with_the_known_ones(run: Answer) -> None:
    names = ", ".join(COMMANDS)
    assert run("zzz") == (2, "", f"hitcurve: there is no command 'zzz'; the commands are {names}.\n")
    code, _, err = run("egine")
    assert (code, err.partition(";")[0]) == (2, "hitcurve: there is no command 'egine' (did you mean 'engine'?)")


def test_a_command_gets_its_arguments_and_ends_with_zero(run: Answer, install: Install) -> None:
    def command(count: int, name: Annotated[str, typer.Option()] = "x") -> None:
        print(count, name)

    install(command)
    assert run("probe", "3", "--name", "y") == (0, "3 y\n", "")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no file x; name one."), 2),
        (EnvironmentFailed("port 1 is in use; free it."), 3),
        (BadFinding("one scenario failed; see the report."), 1),
        (HitcurveError("something\n  else."), 2),
    ],
)
def test_our_errors_are_one_line_and_their_exit_code(
    run: Answer, install: Install, error: HitcurveError, code: int
) -> None:
    install(raising(error))
    assert run("probe") == (code, "", f"hitcurve: {' '.join(str(error).split())}\n")


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_command_may_choose_its_exit_code(run: Answer, install: Install, code: int) -> None:
    install(raising(typer.Exit(code)))
    assert run("probe") == (code, "", "")


def test_ctrl_c_ends_with_130(run: Answer, install: Install) -> None:
    install(raising(KeyboardInterrupt()))
    assert run("probe") == (130, "", "hitcurve: interrupted.\n")
    install(raising(typer.Exit(130)))
    assert run("probe") == (130, "", "hitcurve: interrupted.\n")


def test_wrong_options_and_arguments_are_one_sentence(run: Answer, install: Install) -> None:
    def command(count: int) -> None:
        print(count)

    install(command)
    see = "see 'hitcurve probe --help'.\n"
    code, out, err = run("probe")
    assert (code, out, err.lower()) == (2, "", f"hitcurve: missing argument 'count'; {see}")
    assert run("probe", "1", "--bogus") == (2, "", f"hitcurve: No such option: --bogus; {see}")
    code, out, err = run("probe", "many")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.lower().startswith("hitcurve: invalid value for 'count': ")
    assert err.endswith(see)


def test_a_group_without_subcommand_shows_its_help(run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("probe_command")
    app = typer.Typer(add_completion=False, no_args_is_help=True)
    app.command(name="first", help="Does the first thing.")(lambda: None)
    app.command(name="second", help="Does the second thing.")(lambda: None)
    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_command", module)
    monkeypatch.setitem(COMMANDS, "probe", Command("probe_command", "cli", "A probe."))
    code, out, err = run("probe")
    assert code == 2
    assert "Does the second thing." in out + err


@pytest.mark.parametrize("when", ["imported", "called"])
def test_a_missing_package_names_the_extra(
    run: Answer,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    when: str,
) -> None:
    folder = tmp_path_factory.mktemp("modules")
    source = (
        "import typer\napp = typer.Typer()\n\n@app.command()\ndef f() -> None:\n    import absent_package.part\n"
    )
    (folder / "lazy_command.py").write_text(source)
    (folder / "eager_command.py").write_text("import absent_package\n")
    monkeypatch.syspath_prepend(folder)
    module = "eager_command" if when == "imported" else "lazy_command"
    monkeypatch.setitem(COMMANDS, "probe", Command(module, "loadtests", "A probe."))
    code, out, err = run("probe")
    assert (code, out) == (2, "")
    assert err == (
        "hitcurve: 'hitcurve probe' needs the package 'absent_package'; "
        "install it with: pip install 'hitcurve[loadtests]'\n"
    )


def test_a_module_of_ours_that_is_missing_is_a_bug_and_no_missing_extra(
    run: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "probe", Command("hitcurve_nowhere.command", "cli", "A probe."))
    code, out, err = run("probe")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("hitcurve: a bug in hitcurve: ModuleNotFoundError: No module named 'hitcurve_nowhere'")


def test_what_nobody_foresaw_is_one_line_and_the_traceback_on_demand(
    run: Answer, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HITCURVE_DEBUG", raising=False)
    install(raising(KeyError("x")))
    code, out, err = run("probe")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("hitcurve: a bug in hitcurve: KeyError: 'x' at test_cli.py:")
    monkeypatch.setenv("HITCURVE_DEBUG", "1")
    code, out, err = run("probe")
    assert (code, out) == (3, "")
    assert err.startswith("Traceback (most recent call last):")


def test_what_the_system_refuses_is_told_with_the_file(run: Answer, install: Install) -> None:
    install(raising(PermissionError(13, "Permission denied", "/locked/report.html")))
    assert run("probe") == (3, "", "hitcurve: the system refused: Permission denied (/locked/report.html).\n")


def test_a_reader_that_goes_away_is_no_finding(run: Answer, install: Install) -> None:
    install(raising(BrokenPipeError(32, "Broken pipe")))
    assert run("probe") == (141, "", "")


def test_the_process_ends_quietly_when_its_reader_is_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        ended = subprocess.run([sys.executable, "-m", "hitcurve", "--help"], stdout=gone, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "closed", "answer"),
    [
        ("--help", "1>&-", (0, "", "")),
        ("--version", "2>&-", (0, f"hitcurve {__version__}\n", "")),
        ("x", "2>&-", (2, "", "")),
    ],
)
def test_a_process_begun_without_an_output_answers_all_the_same(
    words: str, closed: str, answer: tuple[int, str, str]
) -> None:
    command = f'exec "$0" -m hitcurve {words} {closed}'
    ended = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == answer


@pytest.mark.parametrize(
    ("encoding", "errors", "said"),
    [
        ("ascii", "strict", b"? 5 %\n"),
        ("ascii", "surrogateescape", b"? 5 %\n"),
        ("utf-8", "strict", "→ 5 %\n".encode()),
    ],
)
def test_what_the_encoding_of_the_output_lacks_is_a_question_mark(
    install: Install, monkeypatch: pytest.MonkeyPatch, encoding: str, errors: str, said: bytes
) -> None:
    install(lambda: print("→ 5 %"))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors=errors))
    with pytest.raises(SystemExit) as ended:
        main(["probe"])
    assert (ended.value.code, written.getvalue()) == (0, said)


def test_help_and_version_need_no_third_party_package() -> None:
    program = (
        "import sys; sys.argv = ['hitcurve', '--help']\n"
        "from hitcurve.cli import main\n"
        "try: main()\n"
        "except SystemExit as exit_: code = exit_.code\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "print(code, sorted(tops & {'typer', 'click', 'rich', 'aiohttp', 'locust', 'yaml', 'hitcurve_chaos'}))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines()[-1] == "0 []"


def test_every_command_explains_itself() -> None:
    # In a process of its own, since importing Locust patches the process it happens in.
    program = (
        "import contextlib, io, json\n"
        "from hitcurve.cli import main\n"
        "from hitcurve.commands import COMMANDS\n"
        "answers = {}\n"
        "for name in COMMANDS:\n"
        "    out, err = io.StringIO(), io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
        "        try: main([name, '--help'])\n"
        "        except SystemExit as exit_: answers[name] = (exit_.code, out.getvalue(), err.getvalue())\n"
        "print(json.dumps(answers))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    answers = json.loads(printed.stdout)
    assert answers.keys() == COMMANDS.keys()
    for name, (code, out, err) in answers.items():
        assert (code, err) == (0, ""), name
        assert f"hitcurve {name}" in out
        assert "Example" in out, name
        assert "[bold]" not in out, name
