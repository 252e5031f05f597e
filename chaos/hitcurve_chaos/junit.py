"""Verdicts and their hypotheses as JUnit XML: bad is a failure, no finding an error, skipped is skipped."""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from xml.etree import ElementTree

from hitcurve.errors import UsageError
from hitcurve.whole_file import whole_file
from hitcurve_chaos.verdict import Skipped, Verdict

__all__ = ["require_writable", "write_junit"]

_ILLEGAL = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def require_writable(path: Path) -> None:
    """Raise UsageError unless ``write_junit`` can write there, so that it is known before a run."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def write_junit(
    path: Path, target: str, verdicts: Sequence[Verdict], skipped: Sequence[Skipped] = (), *, suite: str = "chaos"
) -> None:
    """One case for each verdict and one for each of its hypotheses, whole or not at all.

    UsageError where the file cannot be written. A hypothesis without a value is an error, as its verdict is.
    """
    root = ElementTree.Element("testsuite", {"name": f"hitcurve {suite} on {target}"})
    for verdict in verdicts:
        _add_case(root, target, verdict)
    for one in skipped:
        case = _case(root, target, one.scenario)
        ElementTree.SubElement(case, "skipped", {"message": _legal(one.reason)})
    cases = root.findall("testcase")
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        root.set(name, str(sum(case.find(kind) is not None for case in cases)))
    root.set("tests", str(len(cases)))
    try:
        with whole_file(path) as draft:
            ElementTree.ElementTree(root).write(draft, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written ({error.strerror}); name another file with --junit.")


def _case(root: ElementTree.Element, target: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(root, "testcase", {"classname": f"hitcurve.chaos.{target}", "name": name})


def _add_case(root: ElementTree.Element, target: str, verdict: Verdict) -> None:
    case = _case(root, target, verdict.scenario)
    if verdict.baseline_from_s is not None and verdict.finished_at_s is not None:
        case.set("time", f"{verdict.finished_at_s - verdict.baseline_from_s:.3f}")
    properties = ElementTree.SubElement(case, "properties")
    for name, value in verdict.numbers.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": name, "value": _legal(str(value))})
    if verdict.verdict != "ok":
        kind = "failure" if verdict.verdict == "bad" else "error"
        child = ElementTree.SubElement(case, kind, {"type": verdict.verdict, "message": _legal(verdict.seen)})
        child.text = _legal(
            "\n".join([f"expected: {verdict.expected}", f"seen: {verdict.seen}", *verdict.problems])
        )
    for judgement in verdict.judgements:
        case = _case(root, target, f"{verdict.scenario}.{judgement.name}")
        if judgement.met is not True:
            kind = "failure" if judgement.met is False else "error"
            ElementTree.SubElement(case, kind, {"type": kind, "message": _legal(judgement.sentence)})


def _legal(text: str) -> str:
    """Without characters that XML 1.0 cannot hold (its production 2): an engine's answer may have any."""
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
