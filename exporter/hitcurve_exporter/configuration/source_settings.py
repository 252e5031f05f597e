"""The section ``source`` and the option ``--source``: counters out of a query API."""

import re
from pathlib import Path
from typing import Final

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.source_records import PrometheusSource
from hitcurve_exporter.configuration.targets import an_address
from hitcurve_exporter.configuration.yaml_document import Section, Unsuitable, a_text

__all__ = ["read_source", "source_from_option"]

_HEADER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_MATCHERS: Final = re.compile(
    r'[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*"([^"\\\n]|\\.)*"(\s*,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*"([^"\\\n]|\\.)*")*'
)


def read_source(document: Section, folder: Path) -> PrometheusSource | None:
    """``None`` where the engines are scraped. A relative ``authorization_file`` starts from ``folder``."""
    section = document.section("source", "prometheus: http://127.0.0.1:9090")
    if section is None:
        return None
    section.allow_only(("prometheus", "matchers", "headers", "authorization_file"))
    if "prometheus" not in section:
        raise section.wrong("'source' has no 'prometheus'; name the server: 'prometheus: http://127.0.0.1:9090'.")
    headers = section.section("headers", "X-Scope-OrgID: team")
    file = section.read("authorization_file", a_text, None)
    return PrometheusSource(
        section.read("prometheus", a_server, ""),
        section.read("matchers", some_matchers, ""),
        () if headers is None else tuple((name, _header(headers, name)) for name in headers.keys),
        None if file is None else str(folder / file),
    )


def source_from_option(kind: str, url: str) -> PrometheusSource:
    """``--source prometheus URL``."""
    if kind != "prometheus":
        raise UsageError(
            f"--source must be 'prometheus URL' such as prometheus http://127.0.0.1:9090; got '{kind}'."
        )
    try:
        return PrometheusSource(a_server(url))
    except Unsuitable as error:
        raise UsageError(f"--source prometheus must be {error}.") from error


def a_server(text: str) -> str:
    """Address of a query API; its path may be a prefix such as ``/prometheus``."""
    return an_address(text).rstrip("/").removesuffix("/api/v1/query").rstrip("/")


def some_matchers(text: str) -> str:
    """Label matchers of PromQL without braces."""
    plain = text.strip().removeprefix("{").removesuffix("}").strip().rstrip(",")
    if not _MATCHERS.fullmatch(plain):
        raise Unsuitable('label matchers such as \'job="vllm", cluster="a"\'')
    return plain


def _header(headers: Section, name: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise headers.wrong_at(name, f"'{name}' is not the name of a header.")
    if name.lower() == "authorization":
        raise headers.wrong_at(
            name, "credentials belong into a file of their own; name it in 'authorization_file'."
        )
    return headers.read(name, a_text, "")
