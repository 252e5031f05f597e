"""The ``hitcurve`` command: finds the component that answers, and turns errors into one sentence."""

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from hitcurve import __version__
from hitcurve.commands import COMMANDS, Command
from hitcurve.errors import HitcurveError

if TYPE_CHECKING:
    import typer

__all__ = ["main"]

USAGE_EXIT = 2
INTERRUPTED_EXIT = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 fine, 1 bad finding, 2 wrong usage, 3 the environment failed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        sys.exit(0 if words else USAGE_EXIT)
    if words[0] == "--version":
        print(f"hitcurve {__version__}")
        sys.exit(0)
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        _fail(f"there is no command '{name}'; the commands are {', '.join(COMMANDS)}.", USAGE_EXIT)
    try:
        app = _load(name, COMMANDS[name])
        app(args=rest, prog_name=f"hitcurve {name}")
    except HitcurveError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted.", INTERRUPTED_EXIT)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(INTERRUPTED_EXIT)
    sys.exit(0)


def _load(name: str, command: Command) -> "typer.Typer":
    """The Typer application of a command; says which extra is missing where its packages are not installed."""
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hitcurve."):
            raise
        _fail(
            f"'hitcurve {name}' needs the package '{error.name}'; "
            f"install it with: pip install 'hitcurve[{command.extra}]'",
            USAGE_EXIT,
        )
    app: typer.Typer = module.app
    return app


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        "hitcurve: see, explain and stress-test the prefix cache of LLM engines.",
        "",
        "Usage: hitcurve COMMAND [OPTIONS]        hitcurve COMMAND --help",
        "",
        *(f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items()),
        "",
        "Exit codes: 0 fine, 1 the finding is bad, 2 wrong usage or unreadable input, 3 the environment failed.",
    ]
    return "\n".join(lines)


def _fail(sentence: str, exit_code: int) -> NoReturn:
    print(f"hitcurve: {sentence}", file=sys.stderr)
    sys.exit(exit_code)
