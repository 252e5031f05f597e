"""``hitcurve doctor``: the command."""

import json
import math
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import Console

from hitcurve.doctor.checks import CHECKS
from hitcurve.doctor.diagnosis import Diagnosis, as_document, diagnose
from hitcurve.doctor.examine import examine
from hitcurve.doctor.sarif import as_sarif
from hitcurve.doctor.text import print_diagnosis
from hitcurve.errors import BadFinding, EnvironmentFailed, UsageError
from hitcurve.unreadable import cure_of

__all__ = ["app"]

_EPILOG: Final = (
    "Examples: hitcurve doctor http://10.0.0.5:8000 http://10.0.0.6:8000 · "
    "hitcurve doctor 127.0.0.1:8000 --prometheus http://127.0.0.1:9090 --format sarif"
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


class Format(StrEnum):
    """How the diagnosis is printed."""

    text = "text"
    json = "json"
    sarif = "sarif"


@app.command(name="doctor", epilog=_EPILOG)
def doctor_command(
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL", help="Engines to look at; replicas of one model together."),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="The Prometheus that scrapes them: are names kept?")
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long one answer may take.")] = 5.0,
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.text,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the checks that found nothing, too.")
    ] = False,
    list_checks: Annotated[bool, typer.Option("--list-checks", help="Print what is checked, and end.")] = False,
) -> None:
    """What is misconfigured or cannot work, with evidence and cure. Only reads, and each page once.

    Exit code 0 where nothing is wrong (notes do not count), 1 with any error or warning, 3 where a replica could
    not be read.
    """
    if list_checks:
        if as_json or output is Format.json:
            print(json.dumps([{"id": check.id, "asks": check.asks} for check in CHECKS], indent=1))
        else:
            print("\n".join(f"{check.id:<24}{check.asks}" for check in CHECKS))
        return
    if not urls:
        raise UsageError("no engine is named; write hitcurve doctor http://HOST:PORT.")
    if not (math.isfinite(timeout) and timeout > 0):
        raise UsageError(f"--timeout is {timeout:g}; give a number of seconds above 0.")
    diagnosis = diagnose(examine(urls, prometheus=prometheus, timeout_s=timeout))
    if as_json or output is Format.json:
        print(json.dumps(as_document(diagnosis), indent=1, allow_nan=False))
    elif output is Format.sarif:
        print(json.dumps(as_sarif(diagnosis), indent=1, allow_nan=False))
    else:
        print_diagnosis(diagnosis, Console(soft_wrap=False), verbose=verbose)
    _end(diagnosis)


def _end(diagnosis: Diagnosis) -> None:
    essential = [one for answer in diagnosis.answers for one in answer.not_judged if one.essential]
    if essential:
        where = ", ".join(essential[0].where)
        missing = essential[0].missing.rstrip(".")
        raise EnvironmentFailed(f"{where} cannot be judged: {missing}; {cure_of(missing)}.")
    if diagnosis.verdict == "bad":
        found = sum(finding.severity != "note" for _, finding in diagnosis.findings)
        raise BadFinding(f"{found} thing{'s' if found > 1 else ''} to mend; each has its cure above.")
