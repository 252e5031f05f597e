"""What a load writes keeps to the schemas that are published with it."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hitcurve_loadtests.records import RequestRecord


@pytest.fixture
def schema(repository: Path) -> Any:
    """A validator by the name of its schema."""
    folder = repository / "loadtests/hitcurve_loadtests/schemas"

    def validator(name: str) -> Draft202012Validator:
        values = json.loads((folder / f"{name}.schema.json").read_text())
        Draft202012Validator.check_schema(values)
        return Draft202012Validator(values)

    return validator


def test_a_good_run(
    engine: Any, load: Any, schema: Any, tmp_path: Path, exporter_page: str, read_lines: Any
) -> None:
    words = ("shared-system-prompt", "--host", engine.url, "--users", 2, "--requests", 12, "--warm-up", 2)
    ended = load(*words, "--exporter", exporter_page, "--out", tmp_path)
    assert ended.code == 0, ended.err
    schema("load-summary").validate(json.loads((tmp_path / "load-shared-system-prompt.json").read_text()))
    lines = read_lines(tmp_path / "requests.jsonl")
    assert len(lines) == 12
    for line in lines:
        schema("request").validate(line)


def test_a_run_that_failed(
    engine: Any, load: Any, schema: Any, answers: Any, tmp_path: Path, read_lines: Any
) -> None:
    engine.answer = lambda exchange: answers([(0.0, b'{"error": {"message": "no"}}')], status=500)
    ended = load("unique", "--host", engine.url, "--rate", 50, "--requests", 3, "--out", tmp_path, "--json")
    assert ended.code == 1
    schema("load-summary").validate(ended.summary)
    for line in read_lines(tmp_path / "requests.jsonl"):
        schema("request").validate(line)


def test_a_line_has_all_that_its_schema_names_and_no_more(schema: Any) -> None:
    assert list(schema("request").schema["properties"]) == [field.name for field in fields(RequestRecord)]


@pytest.mark.parametrize("name", ["hit_rate", "verdict"])
def test_the_schema_refuses_what_a_load_never_writes(engine: Any, load: Any, schema: Any, name: str) -> None:
    summary = load("unique", "--host", engine.url, "--users", 1, "--requests", 1, "--json").summary
    wrong = {
        "hit_rate": {**summary, "cache": {**summary["cache"], "hit_rate": 1.5}},
        "verdict": {**summary, "verdict": ""},
    }
    assert schema("load-summary").is_valid(summary)
    assert not schema("load-summary").is_valid(wrong[name])
