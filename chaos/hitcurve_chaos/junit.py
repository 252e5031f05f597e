"""Verdicts as JUnit XML, for CI: a bad one is a failure, one without a finding an error."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from hitcurve.errors import UsageError
from hitcurve_chaos.verdict import Verdict

__all__ = ["require_writable", "write_junit"]


def require_writable(path: Path) -> None:
    """Raise UsageError unless ``write_junit`` can write there, so that it is known before a run."""
    draft = _draft(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        draft.touch()
        draft.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def write_junit(path: Path, target: str, verdicts: Sequence[Verdict]) -> None:
    """Write one test case per verdict, whole or not at all; UsageError where the file cannot be written."""
    bad = sum(verdict.verdict == "bad" for verdict in verdicts)
    errors = sum(verdict.verdict in ("no_data", "invalid") for verdict in verdicts)
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": f"hitcurve chaos on {target}",
            "tests": str(len(verdicts)),
            "failures": str(bad),
            "errors": str(errors),
        },
    )
    for verdict in verdicts:
        _add_case(suite, target, verdict)
    draft = _draft(path)
    try:
        ElementTree.ElementTree(suite).write(draft, encoding="utf-8", xml_declaration=True)
        os.replace(draft, path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written ({error.strerror}); name another file with --junit.")


def _add_case(suite: ElementTree.Element, target: str, verdict: Verdict) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": f"hitcurve.chaos.{target}", "name": verdict.scenario}
    )
    if verdict.baseline_from_s is not None and verdict.finished_at_s is not None:
        case.set("time", f"{verdict.finished_at_s - verdict.baseline_from_s:.3f}")
    properties = ElementTree.SubElement(case, "properties")
    for name, value in verdict.numbers.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": name, "value": str(value)})
    if verdict.verdict != "ok":
        kind = "failure" if verdict.verdict == "bad" else "error"
        child = ElementTree.SubElement(case, kind, {"type": verdict.verdict, "message": verdict.seen})
        child.text = "\n".join([f"expected: {verdict.expected}", f"seen: {verdict.seen}", *verdict.problems])
