"""The web configuration file in Prometheus' own format, as its exporters take it with ``--web.config.file``.

Format: github.com/prometheus/exporter-toolkit, docs/web-configuration.md. What cannot be honoured is refused,
never ignored: somebody relies on it.
"""

import re
from pathlib import Path
from typing import Final

from hitcurve_exporter.configuration.web_records import (
    CLIENT_AUTH_TYPES,
    ClientAuth,
    TlsConfig,
    User,
    WebConfig,
)
from hitcurve_exporter.configuration.yaml_document import (
    Section,
    Unsuitable,
    a_flag,
    a_text,
    read_optional_document,
)

__all__ = ["web_config_from_file"]

_TLS_KEYS: Final = (
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "min_version",
    "max_version",
    "prefer_server_cipher_suites",
)
_NOT_HONOURED: Final = ("cipher_suites", "curve_preferences", "client_allowed_sans", "cert", "key", "client_ca")
_VERSIONS: Final = ("TLS12", "TLS13")
_BCRYPT: Final = re.compile(r"\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}")
_HEADERS: Final = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)


def web_config_from_file(path: Path) -> WebConfig:
    """The validated file; relative paths in it start from its folder. UsageError names line, key and cure.

    An empty file secures nothing, as in Prometheus.
    """
    document = read_optional_document(path)
    if document is None:
        return WebConfig(str(path))
    document.allow_only(("tls_server_config", "http_server_config", "basic_auth_users"))
    tls = document.section("tls_server_config", "cert_file: server.crt")
    users = document.section("basic_auth_users", "reader: $2y$10$…")
    http = document.section("http_server_config", "http2: false")
    return WebConfig(
        str(path),
        None if tls is None else _tls(tls, path.parent),
        () if users is None else _users(users),
        () if http is None else _headers(http),
    )


def _tls(section: Section, folder: Path) -> TlsConfig:
    for key in _NOT_HONOURED:
        if key in section:
            raise section.wrong_at(
                key, f"'{key}' cannot be honoured here; leave it out, or put a proxy that knows it in front."
            )
    section.allow_only(_TLS_KEYS)
    for key in ("cert_file", "key_file"):
        if key not in section:
            raise section.wrong(f"'tls_server_config' has no '{key}'; name the PEM file of the server with it.")
    section.read("prefer_server_cipher_suites", a_flag, True)
    nobody_asked: ClientAuth = "NoClientCert"
    client_auth = section.read("client_auth_type", _a_client_auth, nobody_asked)
    client_ca = section.read("client_ca_file", a_text, None)
    if client_auth == "NoClientCert" and client_ca is not None:
        raise section.wrong_at(
            "client_ca_file",
            "'client_ca_file' is given but no client is asked for a certificate; "
            "add 'client_auth_type: RequireAndVerifyClientCert'.",
        )
    if client_auth != "NoClientCert" and client_ca is None:
        raise section.wrong_at(
            "client_auth_type", f"{client_auth} needs 'client_ca_file', the PEM file of the clients' authority."
        )
    lowest = section.read("min_version", _a_version, "TLS12")
    highest = section.read("max_version", _a_version, "TLS13")
    if lowest > highest:
        raise section.wrong_at("min_version", f"'min_version' {lowest} is above 'max_version' {highest}.")
    return TlsConfig(
        str(folder / section.read("cert_file", a_text, "")),
        str(folder / section.read("key_file", a_text, "")),
        client_auth,
        None if client_ca is None else str(folder / client_ca),
        lowest,
        highest,
    )


def _users(section: Section) -> tuple[User, ...]:
    for name in section.keys:
        if ":" in name or not name:
            raise section.wrong_at(name, "a user name is not empty and has no ':'.")
    return tuple(User(name, section.read(name, _a_hash, b"", secret=True)) for name in section.keys)


def _headers(section: Section) -> tuple[tuple[str, str], ...]:
    """HTTP/2 is an offer that a client need not get, so the key is read and nothing follows from it."""
    section.allow_only(("http2", "headers"))
    section.read("http2", a_flag, True)
    headers = section.section("headers", "X-Frame-Options: deny")
    if headers is None:
        return ()
    headers.allow_only(_HEADERS)
    return tuple((name, headers.read(name, _a_header_value, "")) for name in headers.keys)


def _a_client_auth(text: str) -> ClientAuth:
    for known in CLIENT_AUTH_TYPES:
        if text == known:
            return known
    raise Unsuitable(f"one of {', '.join(CLIENT_AUTH_TYPES)} (certificates are verified or not asked for)")


def _a_version(text: str) -> str:
    if text not in _VERSIONS:
        raise Unsuitable(f"one of {', '.join(_VERSIONS)}")
    return text


def _a_hash(text: str) -> bytes:
    if not _BCRYPT.fullmatch(text):
        raise Unsuitable("a bcrypt hash such as 'htpasswd -nB NAME' prints after the ':'")
    return text.encode()


def _a_header_value(text: str) -> str:
    if not text.isprintable():
        raise Unsuitable("one line of text")
    return text
