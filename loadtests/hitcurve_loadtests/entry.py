"""``hitcurve load``, with ``compare`` and ``overhead`` beside the load itself: ``hitcurve load compare A B``."""

import importlib
from collections.abc import Sequence

from hitcurve.help_text import fit_to_window

__all__ = ["app"]

_PARTS = {
    "compare": "hitcurve_loadtests.compare.command",
    "overhead": "hitcurve_loadtests.overhead.command",
}


def app(args: Sequence[str], prog_name: str, **options: bool) -> object:
    """Call the Typer application of the first word, or that of the load where it names no other."""
    part = args[0] if args and args[0] in _PARTS else ""
    module = importlib.import_module(_PARTS.get(part, "hitcurve_loadtests.command"))
    fit_to_window(module.app)
    rest, name = (args[1:], f"{prog_name} {part}") if part else (args, prog_name)
    return module.app(args=list(rest), prog_name=name, **options)
