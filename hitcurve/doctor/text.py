"""A diagnosis for people."""

import textwrap
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from hitcurve.doctor.diagnosis import Diagnosis
from hitcurve.doctor.findings import Finding, Severity
from hitcurve.printable import printable

__all__ = ["print_diagnosis"]

_INDENT: Final = "    "
_STYLES: Final[dict[Severity, str]] = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def print_diagnosis(diagnosis: Diagnosis, console: Console, *, verbose: bool) -> None:
    """Findings, worst first; then what could not be judged; then how many checks found nothing."""
    for check, finding in diagnosis.findings:
        named = ", ".join(finding.where) or "Prometheus"
        mark = (f"{finding.severity:<8} ", _STYLES[finding.severity])
        console.print(Text.assemble(mark, (check.id, "bold"), printable(f"  {named}")))
        for line in (finding.message, *_evidence(finding), f"→ {finding.cure} ({check.page})"):
            _print_indented(console, printable(line))
    unjudged: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for answer in diagnosis.answers:
        for one in answer.not_judged:
            unjudged.setdefault((one.missing, one.where), []).append(answer.check.id)
    if unjudged:
        console.print(Text("not judged, for lack of", style="dim"))
    for (missing, where), checks in unjudged.items():
        names = f" ({', '.join(where)})" if where else ""
        _print_indented(console, printable(f"{missing}{names}: {', '.join(checks)}"), style="dim")
    fine = [answer.check for answer in diagnosis.answers if not answer.findings and not answer.not_judged]
    if verbose:
        for check in fine:
            console.print(Text(f"fine     {check.id}: {check.asks}", style="green"))
    console.print(
        Text(f"{len(fine)} of {len(diagnosis.answers)} checks found nothing; verdict: {diagnosis.verdict}")
    )


def _print_indented(console: Console, line: str, style: str = "") -> None:
    """Wrapped at blanks below its headline, the second line of an arrow below the first word of the first."""
    hanging = _INDENT + ("  " if line.startswith("→ ") else "")
    wrapped = textwrap.wrap(
        line,
        max(console.width, 2 * len(hanging)),
        initial_indent=_INDENT,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    console.print(Text("\n".join(wrapped), style=style), soft_wrap=True)


def _evidence(finding: Finding) -> Iterator[str]:
    if finding.evidence:
        yield ", ".join(f"{name} = {_value(value)}" for name, value in finding.evidence.items())


def _value(value: float | str | None) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    return "unknown" if value is None else printable(value)
