"""What a query API answers, and how the exporter is told of one."""

import json
from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.load import configuration_from_file
from hitcurve_exporter.configuration.source_records import PrometheusSource
from hitcurve_exporter.configuration.source_settings import source_from_option
from hitcurve_exporter.scraping.query_api import Origin, QueryFailed, pages_of, present_of


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html>", "the answer is not that of a query API"),
        (b"[]", "the answer is not that of a query API"),
        (b'{"status": "error", "error": "too many samples"}', "the server refused the query (too many samples)"),
        (
            b'{"status": "success", "data": {"resultType": "vector", "result": []}}',
            "the server answered a vector instead of a matrix",
        ),
    ],
)
def test_an_answer_of_another_kind_is_a_failed_query(answer: bytes, words: str) -> None:
    with pytest.raises(QueryFailed) as failed:
        pages_of(answer)
    assert str(failed.value) == words


def test_pages_are_put_together_by_target_and_time() -> None:
    series = {"__name__": "up_total", "job": "j", "instance": "i:1", "le": 'a\\"\n'}
    answer = {"resultType": "matrix", "result": [{"metric": series, "values": [[2.5, "1"], [1, "+Inf"]]}]}
    pages = pages_of(json.dumps({"status": "success", "data": answer}).encode())
    escaped = 'le="a\\\\\\"\\n"'
    assert pages == {Origin("j", "i:1"): {1.0: f"up_total{{{escaped}}} +Inf\n", 2.5: f"up_total{{{escaped}}} 1\n"}}
    vector = {"resultType": "vector", "result": [{"metric": {"instance": "i:1"}, "value": [1, "0"]}]}
    assert present_of(json.dumps({"status": "success", "data": vector}).encode()) == {Origin("", "i:1"): False}


def test_the_configuration_of_a_source(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(
        'source:\n  prometheus: http://p:9090/\n  matchers: \'{job="vllm", zone=~"a|b"}\'\n'
        "  headers: {X-Scope-OrgID: team}\n  authorization_file: secret\n"
    )
    assert configuration_from_file(file).source == PrometheusSource(
        "http://p:9090", 'job="vllm", zone=~"a|b"', (("X-Scope-OrgID", "team"),), str(tmp_path / "secret")
    )
    assert source_from_option("prometheus", "http://p:9090/x/api/v1/query") == PrometheusSource("http://p:9090/x")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            "source: {prometheus: 'http://p', matchers: 'job=vllm'}",
            "1: 'matchers' must be label matchers such as 'job=\"vllm\", cluster=\"a\"'; got 'job=vllm'",
        ),
        (
            "source: {prometheus: 'http://p', headers: {Authorization: x}}",
            "1: credentials belong into a file of their own; name it in 'authorization_file'.",
        ),
        (
            "source: {prometheus: 'http://p'}\ntargets: [{url: 'http://a:1'}]",
            "1: 'source' finds the engines itself; leave out 'targets' and the '…_sd_configs', or 'source'.",
        ),
        (
            "source: {matchers: 'a=\"b\"'}",
            "1: 'source' has no 'prometheus'; name the server: 'prometheus: http://127.0.0.1:9090'.",
        ),
    ],
)
def test_mistakes_in_a_source_are_told(lines: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(f"{lines}\n")
    with pytest.raises(UsageError) as wrong:
        configuration_from_file(file)
    assert str(wrong.value) == f"{file}:{sentence}"
