"""A report of damaged records names file and line; it never claims a fault of its own."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitcurve.errors import UsageError
from hitcurve_chaos.report import write_report


def change(file: Path, key: str, value: Any) -> None:
    """Replace one value of a JSON file, a line for each key."""
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}, indent=1))


def spoil(folder: Path, **changes: Any) -> None:
    """Change the verdict."""
    file = folder / "verdicts.json"
    file.write_text(json.dumps([{**json.loads(file.read_text())[0], **changes}], indent=1))


def later(folder: Path, **changes: Any) -> None:
    """Append a reading with changes; line 61."""
    file = folder / "readings.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, json.dumps({**json.loads(lines[-1]), **changes})]) + "\n")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda d: (d / "run.json").unlink(), "is not a run folder: it holds no run.json"),
        (lambda d: (d / "run.json").write_text("{"), "run.json:1: is not JSON (Expecting property name"),
        (lambda d: (d / "verdicts.json").write_text("{}"), "verdicts.json:1: it is not a list"),
        (lambda d: (d / "requests.jsonl").write_text("no\n{}\n"), "requests.jsonl:1: is not JSON"),
        (lambda d: (d / "run.json").write_text("{}"), "run.json:1: it has no 'hitcurve_version'"),
        (lambda d: (d / "run.json").write_text("[]"), "run.json:1: it is not an object"),
        (lambda d: (d / "run.json").write_bytes(b"\n{\xff"), "run.json:2: is not UTF-8 text"),
        (lambda d: (d / "run.json").write_text("[" * 99999), "run.json:1: is nested too deep"),
        (lambda d: change(d / "run.json", "engine", 5), "run.json:6: engine is not an object"),
        (lambda d: change(d / "run.json", "engine", {"kind": "sim"}), "run.json:6: engine has no 'model'"),
        (lambda d: change(d / "run.json", "started_at_s", 1e300), "started_at_s is not a time in Unix seconds"),
        (lambda d: (d / "verdicts.json").write_text("\n[5]"), "verdicts.json:2: [0] is not an object"),
        (lambda d: (d / "verdicts.json").write_text("[{}]"), "verdicts.json:1: [0] has no 'scenario'"),
        (lambda d: spoil(d, numbers={"n": []}), "[0].numbers.n is not a number or a whole number or a text"),
        (lambda d: spoil(d, verdict="fine"), "[0].verdict is 'fine', which is not one of ok, bad, no_data, inv"),
        (lambda d: spoil(d, fault_from_s="now"), "[0].fault_from_s is not a number"),
        (lambda d: spoil(d, states=[{}]), "[0].states[0] has no 'at_s'"),
        (lambda d: (d / "journal.jsonl").write_text('{"a":1}\n'), "journal.jsonl:1: it has no 'at_s'"),
        (lambda d: (d / "journal.jsonl").write_text('{"a":1}'), "journal.jsonl:1: it has no 'at_s'"),
        (lambda d: (d / "journal.jsonl").write_text("5\n"), "journal.jsonl:1: it is not an object"),
        (lambda d: (d / "readings.jsonl").write_bytes(b"\xff\n{}\n"), "readings.jsonl:1: is not JSON"),
        (lambda d: (d / "readings.jsonl").write_text("{}\n"), "readings.jsonl:1: it has no 'target'"),
        (lambda d: later(d, windows=[5]), "readings.jsonl:61: windows[0] is not an object"),
        (lambda d: later(d, at_s=math.nan), "readings.jsonl:61: at_s is not a number"),
        (lambda d: later(d, state={"state": "odd"}), "readings.jsonl:61: state.state is 'odd'"),
        (
            lambda d: later(d, surprise=1),
            "readings.jsonl:61: Reading.__init__() got an unexpected keyword argument",
        ),
        (lambda d: later(d, kv_usage="full"), "readings.jsonl:61: kv_usage is not a number"),
    ],
)
def test_unreadable_records_are_named(run_folder: Path, damage: Any, complaint: str) -> None:
    damage(run_folder)
    with pytest.raises(UsageError) as caught:
        write_report(run_folder)
    assert complaint in str(caught.value)
    assert not (run_folder / "report.html").exists()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["run.json", "verdicts.json", "readings.jsonl", "requests.jsonl", "journal.jsonl"]),
    seed=st.randoms(use_true_random=False),
    other=st.sampled_from([None, 5, -1e308, "x", [], {}, [None], {"a": None}, True]),
)
def test_whatever_value_is_exchanged_it_is_shown_or_named(
    run_folder: Path, name: str, seed: Random, other: Any
) -> None:
    for records in ("readings.jsonl", "requests.jsonl"):
        shorten(run_folder / records)
    file = run_folder / name
    whole = file.read_text()
    lines = whole.splitlines()
    number = seed.randrange(len(lines))
    lines[number] = json.dumps(exchanged(json.loads(lines[number]), seed, other))
    file.write_text("\n".join(lines))
    complaint = None
    try:
        write_report(run_folder)
    except UsageError as error:
        complaint = str(error)
    finally:
        file.write_text(whole)
    assert complaint is None or complaint.startswith(f"{file}:{number + 1}: ")


def shorten(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[25:35] or [file.read_text()]))


def exchanged(document: Any, seed: Random, other: Any) -> Any:
    """The document with one value, somewhere, replaced."""
    if not document or not isinstance(document, dict | list) or seed.random() < 0.2:
        return other
    key = seed.choice(list(document) if isinstance(document, dict) else range(len(document)))
    document[key] = exchanged(document[key], seed, other)
    return document
