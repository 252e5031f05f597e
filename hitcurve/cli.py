"""The ``hitcurve`` command: finds the component that answers, and turns every error into one sentence.

Exit codes: 0 fine, 1 the finding is bad, 2 wrong usage or unreadable input, 3 the environment failed; and, as
shells have it, 130 after Ctrl-C and 141 when the reader of the output went away.
"""

import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from hitcurve import __version__
from hitcurve.commands import COMMANDS, Command
from hitcurve.errors import EnvironmentFailed, HitcurveError, UsageError
from hitcurve.help_text import fit_to_window
from hitcurve.printable import printable

if TYPE_CHECKING:
    import typer

__all__ = ["main"]

USAGE_EXIT = 2
BUG_EXIT = 3
INTERRUPTED_EXIT = 130
BROKEN_PIPE_EXIT = 141
DEBUG_VARIABLE = "HITCURVE_DEBUG"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code; without arguments, those of the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    _print_whatever_the_encoding()
    try:
        code = _answer(words)
        sys.stdout.flush()
    except HitcurveError as error:
        code = _say(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = _say("interrupted.", INTERRUPTED_EXIT)
    except BrokenPipeError:
        code = _reader_gone()
    except Exception as error:
        code = _unexpected(error)
    sys.exit(code)


def _open_what_is_closed() -> None:
    """A process begun without standard output or error, as by ``>&-``, has None in their places."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _print_whatever_the_encoding() -> None:
    """A character that standard output cannot write becomes a question mark; a rate beside it matters more."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and (out.errors == "strict" or out.encoding.lower() != "utf-8"):
        out.reconfigure(errors="replace")


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if words else USAGE_EXIT
    if words[0] == "--version":
        print(f"hitcurve {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        alike = get_close_matches(name, COMMANDS, n=1)
        meant = f" (did you mean '{alike[0]}'?)" if alike else ""
        raise UsageError(f"there is no command '{name}'{meant}; the commands are {', '.join(COMMANDS)}.")
    try:
        return _run(_load(COMMANDS[name]), f"hitcurve {name}", rest)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0].startswith("hitcurve"):
            raise
        raise UsageError(
            f"'hitcurve {name}' needs the package '{error.name}'; "
            f"install it with: pip install 'hitcurve[{COMMANDS[name].extra}]'"
        ) from error


def _load(command: Command) -> "typer.Typer":
    app: typer.Typer = importlib.import_module(command.module).app
    fit_to_window(app)
    return app


def _run(app: "typer.Typer", prog_name: str, arguments: list[str]) -> int:
    """Let the Typer application answer; its own usage errors become UsageError, one sentence like ours."""
    try:
        result = app(args=arguments, prog_name=prog_name, standalone_mode=False)
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    except Exception as error:
        # Typer carries its own copy of click since 0.16; its exceptions are known by what they can do.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        message = str(format_message()).strip()
        if not message or "\n" in message:
            # A command that needs arguments and got none shows its help instead.
            print(message, file=sys.stderr, end="\n" if message else "")
            return USAGE_EXIT
        context = getattr(error, "ctx", None)
        path = prog_name if context is None else context.command_path
        raise UsageError(f"{message.rstrip('.')}; see '{path} --help'.") from error
    if result == INTERRUPTED_EXIT:
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        "hitcurve: see, explain and stress-test the prefix cache of LLM engines.",
        "",
        "Usage: hitcurve COMMAND [OPTIONS]        hitcurve COMMAND --help",
        "",
        *(f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items()),
        "",
        "Exit codes: 0 fine, 1 the finding is bad, 2 wrong usage or unreadable input,",
        "3 the environment failed.",
    ]
    return "\n".join(lines)


def _unexpected(error: Exception) -> int:
    """What no part foresaw: the operating system said no, or hitcurve has a bug."""
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return _say(f"the system refused: {error.strerror}{where}.", EnvironmentFailed.exit_code)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    sentence = f"a bug in hitcurve: {type(error).__name__}: {error}{place}"
    return _say(f"{sentence}; set {DEBUG_VARIABLE}=1 to see the traceback and report it.", BUG_EXIT)


def _reader_gone() -> int:
    # Else the interpreter complains when it flushes standard output at its end. A captured one has no number.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE_EXIT


def _say(sentence: str, exit_code: int) -> int:
    print(f"hitcurve: {printable(' '.join(sentence.split()))}", file=sys.stderr)
    return exit_code
