"""What a page of another site can make somebody's browser send, and what a name that leads here can."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.load import configuration_from_file
from hitcurve_exporter.configuration.records import ExporterConfig

Start = Callable[..., Any]
MARK = b'{"target": "a", "kind": "reset"}'


@pytest.fixture
def exporter(start_exporter: Start, scripted_engine: Start, page_of: Start, watching: Start) -> Any:
    """One that knows one name besides its addresses."""
    config: ExporterConfig = watching(scripted_engine(page_of(10, 5)).url)
    config = replace(config, allowed_hosts=("exporter.example",))
    return start_exporter(config, lambda: config)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9477", 200),
        ("localhost", 200),
        ("metrics.localhost:9477", 200),
        ("[::1]:9477", 200),
        ("10.0.0.7:80", 200),
        ("exporter.example:9477", 200),
        ("EXPORTER.example.", 200),
        ("rebound.example:9477", 403),
        ("127.0.0.1.rebound.example", 403),
        ("exporter.example.rebound.example", 403),
        ("[::1", 403),
        ("localhost@rebound.example", 403),
    ],
)
def test_only_known_names_lead_to_an_exporter_on_loopback(host: str, status: int, exporter: Any) -> None:
    assert exporter.ask("/metrics", Host=host).status == status
    assert exporter.ask("/api/v1/engines", Host=host).status == status
    assert exporter.ask("/-/reload", b"", Host=host).status == status


def test_the_refusal_says_what_to_do(exporter: Any) -> None:
    refused = exporter.ask("/", Host="rebound.example")
    assert refused.text == "The host name 'rebound.example' is not known here; add it to 'allowed_hosts'.\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:1234", "Host": "localhost:1234"}, 200),
        ({"Origin": "https://exporter.example", "Host": "exporter.example", "Sec_Fetch_Site": "same-origin"}, 200),
        ({"Origin": "http://localhost:1235", "Host": "localhost:1234"}, 403),
        ({"Origin": "http://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
    ],
)
def test_another_site_changes_nothing(headers: dict[str, str], status: int, exporter: Any) -> None:
    assert exporter.ask("/-/reload", b"", **headers).status == status
    marked = exporter.ask("/api/v1/marks", MARK, Content_Type="application/json", **headers).status
    assert marked == (404 if status == 200 else 403)
    read = {name: value for name, value in headers.items() if name != "Host"}
    assert exporter.ask("/metrics", **read).status == 200


def test_a_name_that_leads_to_loopback_changes_nothing_where_others_may_read(
    start_exporter: Start, scripted_engine: Start, page_of: Start, watching: Start
) -> None:
    """An exporter for other machines is read by whatever name it has there."""
    config: ExporterConfig = watching(scripted_engine(page_of(10, 5)).url)
    exporter = start_exporter(config, lambda: config, host="0.0.0.0")
    assert exporter.ask("/metrics", Host="rebound.example").status == 200
    assert exporter.ask("/-/reload", b"", Host="rebound.example").status == 403
    assert exporter.ask("/-/reload", b"").status == 200


def test_the_configuration_names_hosts(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("targets: [{url: 'http://a:1'}]\nallowed_hosts: [Exporter.Example, localdomain.]\n")
    assert configuration_from_file(file).allowed_hosts == ("exporter.example", "localdomain")
    file.write_text("targets: [{url: 'http://a:1'}]\nallowed_hosts: ['a:80']\n")
    with pytest.raises(UsageError, match=r"exporter.yaml:2: 'allowed_hosts' must be a host name such as"):
        configuration_from_file(file)
