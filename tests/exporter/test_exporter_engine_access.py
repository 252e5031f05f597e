"""Engines that ask who scrapes them, and those whose certificate nobody else knows."""

import base64
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.access_records import EngineAccess, EngineTls, SecretSource
from hitcurve_exporter.configuration.load import configuration_from_file
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig

Start = Callable[..., Any]
SECRET = "open-sesame-1"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def scrape_with(start_exporter: Start, watching: Start) -> Callable[..., Any]:
    """An exporter that scrapes one address with an access."""

    def begin(url: str, access: EngineAccess | None) -> Any:
        config: ExporterConfig = watching(url)
        return start_exporter(replace(config, targets=(TargetConfig(url, f"{url}/metrics", "a", access=access),)))

    return begin


def failure(exporter: Any) -> str | None:
    (target,) = exporter.engines()["targets"]
    found: str | None = target["failure"]
    return found


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"user": "me", "password": "file"}, basic("me", SECRET)),
        ({"user": "me", "password": "variable"}, basic("me", SECRET)),
        ({"token": "file"}, f"Bearer {SECRET}"),
        ({"token": "variable", "token_type": "Token"}, f"Token {SECRET}"),
    ],
)
def test_who_scrapes_is_told(
    settings: dict[str, str],
    header: str,
    scripted_engine: Start,
    scrape_with: Start,
    page_of: Start,
    tmp_path: Path,
    eventually: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\nsecond line\n")
    monkeypatch.setenv("ENGINE_SECRET", SECRET)
    sources = {
        "file": SecretSource(file=str(tmp_path / "secret")),
        "variable": SecretSource(variable="ENGINE_SECRET"),
    }
    engine = scripted_engine(page_of(10, 5))
    exporter = scrape_with(
        engine.url, EngineAccess(**{key: sources.get(value, value) for key, value in settings.items()})
    )
    eventually(lambda: exporter.samples().get('hitcurve_up{target="a"}') == 1)
    assert {headers["Authorization"] for headers in engine.headers_seen} == {header}


def test_a_new_secret_is_taken_with_the_next_scrape_and_none_is_ever_shown(
    scripted_engine: Start,
    scrape_with: Start,
    page_of: Start,
    tmp_path: Path,
    eventually: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    engine = scripted_engine(page_of(10, 5))
    exporter = scrape_with(engine.url, EngineAccess(token=SecretSource(file=str(file))))
    eventually(lambda: failure(exporter) == "credentials")
    assert engine.scrapes == 0
    file.write_text(SECRET)
    eventually(lambda: failure(exporter) is None and engine.scrapes > 0)
    file.write_text("another-secret-2\n")
    eventually(lambda: engine.headers_seen[-1]["Authorization"] == "Bearer another-secret-2")
    file.write_text("")
    eventually(lambda: failure(exporter) == "credentials")
    shown = caplog.text + exporter.ask("/metrics").text + exporter.ask("/").text + str(exporter.engines())
    assert SECRET not in shown
    assert "another-secret-2" not in shown
    assert f"there is no secret in {file}" in caplog.text


@pytest.fixture
def secured_engine(tmp_path: Path, make_certificate: Callable[..., None], page_of: Start) -> Iterator[Any]:
    """Starts engines with TLS whose certificate only ``engine.crt`` verifies."""
    make_certificate(tmp_path, "engine")
    make_certificate(tmp_path, "authority")
    make_certificate(tmp_path, "client", signed_by="authority")
    servers = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page_of(10, 5).encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A refused handshake is part of the tests."""

    def start(asks: bool = False) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "engine.crt", tmp_path / "engine.key")
        if asks:
            context.load_verify_locations(tmp_path / "authority.crt")
            context.verify_mode = ssl.CERT_REQUIRED
        server = Server(("127.0.0.1", 0), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return f"https://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("asks", "settings", "expected"),
    [
        (False, None, "tls"),
        (False, {"ca_file": "engine.crt"}, None),
        (False, {"ca_file": "authority.crt"}, "tls"),
        (False, {"ca_file": "engine.crt", "server_name": "elsewhere.example"}, "tls"),
        (False, {"insecure_skip_verify": True}, None),
        (True, {"ca_file": "engine.crt"}, "tls"),
        (True, {"ca_file": "engine.crt", "cert_file": "client.crt", "key_file": "client.key"}, None),
        (False, {"ca_file": "missing.crt"}, "credentials"),
        (False, {"ca_file": "engine.key"}, "credentials"),
        (True, {"cert_file": "client.crt", "key_file": "engine.key"}, "credentials"),
    ],
)
def test_certificates(
    asks: bool,
    settings: dict[str, Any] | None,
    expected: str | None,
    secured_engine: Start,
    scrape_with: Start,
    tmp_path: Path,
    eventually: Start,
) -> None:
    tls = None
    if settings is not None:
        files = {key: str(tmp_path / value) if "file" in key else value for key, value in settings.items()}
        tls = EngineTls(**files)
    exporter = scrape_with(secured_engine(asks), None if tls is None else EngineAccess(tls))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    # An engine may tell only after the handshake that it wants a certificate.
    assert failure(exporter) in ((expected, "connection_failed") if asks else (expected,))


def test_a_renewed_authority_is_taken_with_the_next_scrape(
    secured_engine: Start, scrape_with: Start, tmp_path: Path, eventually: Start
) -> None:
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes((tmp_path / "authority.crt").read_bytes())
    exporter = scrape_with(secured_engine(), EngineAccess(EngineTls(ca_file=str(trusted))))
    eventually(lambda: failure(exporter) == "tls")
    trusted.write_bytes((tmp_path / "engine.crt").read_bytes())
    eventually(lambda: failure(exporter) is None)


def read(folder: Path, text: str) -> ExporterConfig:
    file = folder / "exporter.yaml"
    file.write_text(text)
    return configuration_from_file(file)


def test_a_target_may_have_an_access_of_its_own(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
authorization: {credentials_file: token.txt}
tls_config: {ca_file: ca.crt, cert_file: a.crt, key_file: /etc/a.key, server_name: e.example}
targets:
  - url: https://a:1
  - url: https://b:1
    basic_auth: {username: me, password_env: PASSWORD}
""",
    )
    tls = EngineTls(str(tmp_path / "ca.crt"), str(tmp_path / "a.crt"), "/etc/a.key", "e.example")
    usual = EngineAccess(tls, token=SecretSource(file=str(tmp_path / "token.txt")))
    assert config.access == usual
    assert [target.access for target in config.targets] == [
        usual,
        EngineAccess(user="me", password=SecretSource(variable="PASSWORD")),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("basic_auth: {password_env: A}", "'basic_auth' has no 'username'"),
        ("basic_auth: {username: me}", "name either 'password_file' or 'password_env'"),
        ("basic_auth: {username: me, password_env: A, password_file: b}", "name either 'password_file' or"),
        ("basic_auth: {username: 'a:b', password_env: A}", "'username' must be a name without ':'"),
        (f"basic_auth: {{username: me, password: {SECRET}}}", "secrets belong into a file or the environment"),
        (f"authorization: {{credentials: {SECRET}}}", "secrets belong into a file or the environment"),
        ("authorization: {type: 'a b', credentials_env: A}", "'type' must be an authorization type"),
        ("authorization: {credentials_env: 1A}", "'credentials_env' must be the name of a variable"),
        ("basic_auth: {username: me, password_env: A}\nauthorization: {credentials_env: A}", "exclude each other"),
        ("tls_config: {cert_file: a}", "'cert_file' and 'key_file' come together"),
        ("tls_config: {ca: a}", "unknown key 'ca'"),
    ],
)
def test_a_mistake_is_told_without_the_secret(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, f"targets: [{{url: 'http://a:1'}}]\n{text}\n")
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_source_has_credentials_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'authorization' is for engines, and 'source' asks none"):
        read(tmp_path, "source: {prometheus: 'http://a:1'}\nauthorization: {credentials_env: A}\n")


def test_tls_settings_do_no_harm_where_an_engine_has_no_tls(
    scripted_engine: Start,
    scrape_with: Start,
    page_of: Start,
    eventually: Start,
    tmp_path: Path,
    make_certificate: Callable[..., None],
) -> None:
    make_certificate(tmp_path, "authority")
    engine = scripted_engine(page_of(10, 5))
    tls = EngineTls(ca_file=str(tmp_path / "authority.crt"), server_name="engine.example")
    exporter = scrape_with(engine.url, EngineAccess(tls))
    eventually(lambda: exporter.samples().get('hitcurve_up{target="a"}') == 1)


def test_discovered_engines_are_told_and_whoever_names_them_is_not(
    scripted_engine: Start, start_exporter: Start, page_of: Start, tmp_path: Path, eventually: Start
) -> None:
    engine = scripted_engine(page_of(10, 5))
    naming = scripted_engine(
        f'[{{"targets": ["{engine.url.removeprefix("http://")}"]}}]', content_type="application/json"
    )
    (tmp_path / "token").write_text(SECRET)
    exporter = start_exporter(
        read(
            tmp_path,
            "interval: 100ms\nauthorization: {credentials_file: token}\n"
            f"http_sd_configs: [{{url: {naming.url}}}]\n",
        )
    )
    eventually(lambda: engine.scrapes > 0)
    assert exporter.ask("/-/healthy").status == 200
    assert engine.headers_seen[0]["Authorization"] == f"Bearer {SECRET}"
    assert all("Authorization" not in headers for headers in naming.headers_seen)
