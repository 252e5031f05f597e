"""The ``load`` of a target, read as ``hitcurve load`` itself would read it, so that a mistake is told at once."""

import math
from collections.abc import Mapping
from typing import Any

import typer

from hitcurve.errors import UsageError
from hitcurve.yaml_lines import Place
from hitcurve_chaos.load_words import load_words
from hitcurve_loadtests.command import app
from hitcurve_loadtests.plan import LoadOptions, plan_load

__all__ = ["checked_load"]

_OF_THE_RUN = {
    "host": "it is the target's 'engine'",
    "out": "it is the run folder",
    "name": "the run names its loads",
    "duration": "the load lasts as long as the run",
    "api_key": "keys stay in the environment variable HITCURVE_API_KEY",
}
_ANY_HOST = "http://127.0.0.1:1"


def checked_load(place: Place) -> dict[str, Any]:
    """The options of a load as they stand; UsageError, with file and line, for what ``hitcurve load`` refuses."""
    command = typer.main.get_command(app)
    parameters = {str(parameter.name): parameter for parameter in command.params}
    known = sorted(parameters.keys() - {*_OF_THE_RUN, "as_json"})
    for key, entry in place.mapping(()).items():
        if key in _OF_THE_RUN:
            entry.wrong("cannot be set here", f"take it out: {_OF_THE_RUN[key]}")
        if key not in known:
            entry.wrong("is not an option of 'hitcurve load'", f"the options are {', '.join(known)}")
        if isinstance(entry.value, list) and not getattr(parameters[key], "multiple", False):
            entry.wrong("is a list", "give one value")
        _check_plain(entry)
        _parsed(entry, {key: entry.value})
    if ("profile" in place.value) == ("trace" in place.value):
        place.wrong("must have a 'profile' or a 'trace', one of them", "name one, such as shared-system-prompt")
    options = _parsed(place, place.value)
    try:
        plan_load(LoadOptions(**options))
    except UsageError as error:
        place.wrong(f"is refused by 'hitcurve load' ({str(error).rstrip('.')})", "correct it")
    return dict(place.value)


def _check_plain(place: Place) -> None:
    for value in place.value if isinstance(place.value, list) else [place.value]:
        if isinstance(value, dict | list):
            place.wrong("is no plain value", "give a number, a text, true or false")
        if isinstance(value, float) and not math.isfinite(value):
            place.wrong(f"is {value}", "give a finite number")


def _parsed(place: Place, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as ``hitcurve load`` takes them from its command line."""
    try:
        context = typer.main.get_command(app).make_context("load", load_words(_ANY_HOST, options))
    except Exception as error:
        # Typer carries its own copy of click; its exceptions are known by what they can do.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        place.wrong(f"is refused by 'hitcurve load' ({str(format_message()).rstrip('.')})", "correct it")
    return {key: value for key, value in context.params.items() if key != "as_json"}
