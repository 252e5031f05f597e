"""TLS, client certificates and passwords of the running exporter."""

import base64
import http.client
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import bcrypt
import pytest

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.records import ExporterConfig
from hitcurve_exporter.configuration.web_file import web_config_from_file
from hitcurve_exporter.configuration.web_records import ClientAuth, TlsConfig, User, WebConfig

Start = Callable[..., Any]
Configure = Callable[..., ExporterConfig]
DEADLINE_S = 20.0
PASSWORD = "open sesame: ü"
CHEAP_ROUNDS = 4


def password_hash(password: str) -> bytes:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(CHEAP_ROUNDS))


def authorization(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory, make_certificate: Callable[..., None]) -> Path:
    """A server, an authority of clients, and a client."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificate(folder, "server")
    make_certificate(folder, "authority")
    make_certificate(folder, "client", signed_by="authority")
    make_certificate(folder, "stranger")
    return folder


def tls(folder: Path, client_auth: ClientAuth = "NoClientCert") -> TlsConfig:
    authority = None if client_auth == "NoClientCert" else str(folder / "authority.crt")
    return TlsConfig(str(folder / "server.crt"), str(folder / "server.key"), client_auth, authority)


def ask(
    url: str, path: str, folder: Path | None = None, client: str | None = None, **headers: str
) -> tuple[int, str]:
    """Status and body; trusts the server's certificate of ``folder`` only."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    if parts.scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=DEADLINE_S)
    else:
        assert folder is not None
        context = ssl.create_default_context(cafile=str(folder / "server.crt"))
        if client is not None:
            context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
        connection = http.client.HTTPSConnection(host, port, timeout=DEADLINE_S, context=context)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_nothing_is_answered_without_the_right_password(
    scripted_engine: Start, start_exporter: Start, page_of: Callable[..., str], watching: Configure
) -> None:
    engine = scripted_engine(page_of(10, 5))
    web = WebConfig(users=(User("reader", password_hash(PASSWORD)),), headers=(("X-Frame-Options", "deny"),))
    exporter = start_exporter(replace(watching(engine.url), web=web))
    for path in ("/", "/metrics", "/api/v1/engines", "/-/healthy", "/-/ready", "/nothing"):
        assert ask(exporter.url, path) == (401, "Unauthorized\n")
    for user, password in (("reader", "wrong"), ("nobody", PASSWORD), ("reader", ""), ("", "")):
        assert ask(exporter.url, "/metrics", **authorization(user, password))[0] == 401
    for header in ("Basic", "Basic ???", "Bearer x", "Basic " + base64.b64encode(b"\xff:\xff").decode()):
        assert ask(exporter.url, "/metrics", Authorization=header)[0] == 401
    unauthorized = exporter.ask("/metrics")
    assert unauthorized.headers["WWW-Authenticate"] == 'Basic realm="hitcurve exporter"'
    for _ in range(2):
        status, text = ask(exporter.url, "/metrics", **authorization("reader", PASSWORD))
        assert (status, "hitcurve_build_info" in text) == (200, True)
    assert exporter.ask("/-/healthy", **authorization("reader", PASSWORD)).headers["X-Frame-Options"] == "deny"


def test_a_password_longer_than_bcrypt_reads_is_cut_and_not_an_error(
    start_exporter: Start, watching: Configure
) -> None:
    longest = "x" * 72
    web = WebConfig(users=(User("reader", password_hash(longest)),))
    exporter = start_exporter(replace(watching("http://127.0.0.1:9"), web=web))
    assert ask(exporter.url, "/-/healthy", **authorization("reader", longest + "y"))[0] == 200
    assert ask(exporter.url, "/-/healthy", **authorization("reader", longest[:-1]))[0] == 401


def test_it_speaks_tls_and_nothing_else_on_that_port(
    start_exporter: Start, watching: Configure, certificates: Path
) -> None:
    exporter = start_exporter(replace(watching("http://127.0.0.1:9"), web=WebConfig(tls=tls(certificates))))
    assert exporter.url.startswith("https://127.0.0.1:")
    assert ask(exporter.url, "/-/healthy", certificates)[0] == 200
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(exporter.url.replace("https", "http"), "/-/healthy")


@pytest.mark.parametrize(
    ("client_auth", "client", "admitted"),
    [
        ("RequireAndVerifyClientCert", "client", True),
        ("RequireAndVerifyClientCert", None, False),
        ("RequireAndVerifyClientCert", "stranger", False),
        ("VerifyClientCertIfGiven", None, True),
        ("VerifyClientCertIfGiven", "client", True),
        ("VerifyClientCertIfGiven", "stranger", False),
    ],
)
def test_clients_show_a_certificate_of_the_authority(
    client_auth: ClientAuth,
    client: str | None,
    admitted: bool,
    start_exporter: Start,
    watching: Configure,
    certificates: Path,
) -> None:
    web = WebConfig(tls=tls(certificates, client_auth))
    exporter = start_exporter(replace(watching("http://127.0.0.1:9"), web=web))
    if admitted:
        assert ask(exporter.url, "/-/healthy", certificates, client)[0] == 200
    else:
        with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
            ask(exporter.url, "/-/healthy", certificates, client)


def test_a_reload_takes_a_renewed_certificate_and_other_users(
    start_exporter: Start, watching: Configure, tmp_path: Path, make_certificate: Callable[..., None]
) -> None:
    make_certificate(tmp_path, "server")
    web = WebConfig(tls=tls(tmp_path), users=(User("old", password_hash("old")),))
    config = replace(watching("http://127.0.0.1:9"), web=web)
    changed = replace(config, web=replace(web, users=(User("new", password_hash("new")),)))
    answers: list[ExporterConfig] = [changed]
    exporter = start_exporter(config, read_again=lambda: answers[0])
    assert ask(exporter.url, "/-/healthy", tmp_path, **authorization("old", "old"))[0] == 200
    (tmp_path / "server.crt").rename(tmp_path / "old.crt")
    make_certificate(tmp_path, "server")
    with pytest.raises(ssl.SSLError):
        ask(exporter.url, "/-/healthy", tmp_path, **authorization("old", "old"))
    exporter._await(exporter.service.reload())
    assert ask(exporter.url, "/-/healthy", tmp_path, **authorization("new", "new"))[0] == 200
    assert ask(exporter.url, "/-/healthy", tmp_path, **authorization("old", "old"))[0] == 401
    (tmp_path / "server.key").write_text("")
    with pytest.raises(UsageError, match=r"cannot use the certificate .*server\.crt"):
        exporter._await(exporter.service.reload())
    assert ask(exporter.url, "/-/healthy", tmp_path, **authorization("new", "new"))[0] == 200


def test_a_reload_admits_clients_of_another_authority_and_no_longer_those_of_the_one_before(
    start_exporter: Start, watching: Configure, tmp_path: Path, make_certificate: Callable[..., None]
) -> None:
    for name, authority in (("server", None), ("authority", None), ("client", "authority")):
        make_certificate(tmp_path, name, **({"signed_by": authority} if authority else {}))
    config = replace(
        watching("http://127.0.0.1:9"), web=WebConfig(tls=tls(tmp_path, "RequireAndVerifyClientCert"))
    )
    exporter = start_exporter(config, read_again=lambda: config)
    assert ask(exporter.url, "/-/healthy", tmp_path, "client")[0] == 200
    make_certificate(tmp_path, "authority")
    make_certificate(tmp_path, "other", signed_by="authority")
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        ask(exporter.url, "/-/healthy", tmp_path, "other")
    exporter._await(exporter.service.reload())
    assert ask(exporter.url, "/-/healthy", tmp_path, "other")[0] == 200
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        ask(exporter.url, "/-/healthy", tmp_path, "client")
    (tmp_path / "authority.crt").write_text("no certificate")
    with pytest.raises(UsageError, match=r"cannot use the client_ca_file .*authority\.crt"):
        exporter._await(exporter.service.reload())
    assert ask(exporter.url, "/-/healthy", tmp_path, "other")[0] == 200


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str, Path]]]:
    """Starts the command; process, URL and the file of its standard error."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str, Path]:
        log = tmp_path / "stderr"
        command = [sys.executable, "-m", "hitcurve", "exporter", "--listen", "127.0.0.1:0", *arguments]
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tmp_path)
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), log.read_text()
        return process, line.removeprefix("listening on ").strip(), log

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_no_credential_is_in_any_output(started: Start, tmp_path: Path, certificates: Path) -> None:
    secret = password_hash(PASSWORD).decode()
    file = tmp_path / "web.yml"
    file.write_text(
        f"tls_server_config: {{cert_file: {certificates}/server.crt, key_file: {certificates}/server.key}}\n"
        f"basic_auth_users: {{reader: {secret}}}\n"
    )
    assert web_config_from_file(file).users[0].name == "reader"
    arguments = ("--target", "http://127.0.0.1:9", "--web.config.file", str(file))
    process, url, log = started(*arguments)
    right = ask(url, "/metrics", certificates, **authorization("reader", PASSWORD))
    assert right[0] == 200
    pages = [right[1]]
    for path in ("/", "/api/v1/engines"):
        pages.append(ask(url, path, certificates, **authorization("reader", PASSWORD))[1])
    assert ask(url, "/metrics", certificates, **authorization("reader", "wrong-one"))[0] == 401
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    checked = subprocess.run(
        [sys.executable, "-m", "hitcurve", "exporter", *arguments, "--check", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(checked.stdout)["web"]["users"] == ["reader"]
    for text in (log.read_text(), checked.stdout, checked.stderr, *pages):
        for word in (secret, PASSWORD, "wrong-one", authorization("reader", PASSWORD)["Authorization"][6:]):
            assert word not in text
