"""The Markdown summary of a run, for the page of a pipeline."""

from collections.abc import Sequence
from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve_chaos.verdict import Skipped, Verdict

__all__ = ["require_appendable", "summary", "write_summary"]

_SIGNS = {"ok": "✅ ok", "bad": "❌ bad", "no_data": "❔ no_data", "invalid": "⚠️ invalid"}


def summary(suite: str, target: str, seed: int, verdicts: Sequence[Verdict], skipped: Sequence[Skipped]) -> str:
    """Headline, what is wrong (wrong hits first), a table of verdicts, and what was skipped."""
    good = sum(verdict.verdict == "ok" for verdict in verdicts)
    lines = [f"## hitcurve chaos: {suite} on {target}", ""]
    lines += [f"**{good} of {len(verdicts)} scenarios are ok**, {len(skipped)} skipped. Seed {seed}.", ""]
    worst = [p for v in verdicts for p in v.problems if p.startswith(("WRONG OUTPUT", "IMPOSSIBLE HIT"))]
    lines += ["> [!CAUTION]", *(f"> {_cell(problem)}" for problem in worst[:10]), ""] if worst else []
    lines += ["| scenario | verdict | hypotheses | seen |", "|---|---|---|---|"]
    for verdict in verdicts:
        met = sum(judgement.met is True for judgement in verdict.judgements)
        seen = "<br>".join(map(_cell, [verdict.seen, *verdict.problems]))
        hypotheses = f"{met}/{len(verdict.judgements)}" if verdict.judgements else "–"
        lines.append(f"| {verdict.scenario} | {_SIGNS[verdict.verdict]} | {hypotheses} | {seen} |")
    if skipped:
        lines += ["", "Skipped, and so neither passed nor failed:", ""]
        lines += [f"- `{one.scenario}`: {_cell(one.reason)}" for one in skipped]
    return "\n".join(lines) + "\n"


def require_appendable(path: Path) -> None:
    """Raise UsageError unless ``write_summary`` can append there, so that it is known before a run."""
    was_there = path.exists()
    write_summary(path, "")
    if not was_there:
        path.unlink()


def write_summary(path: Path, text: str) -> None:
    """Append to ``path``, as ``$GITHUB_STEP_SUMMARY`` wants it; UsageError where that cannot be."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}); name another file with --markdown."
        ) from error


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
