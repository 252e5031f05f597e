"""The web configuration file: what is taken, what is refused, and that no error shows a secret."""

import subprocess
from pathlib import Path

import pytest

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.load import configuration_from_file
from hitcurve_exporter.configuration.web_file import web_config_from_file
from hitcurve_exporter.configuration.web_records import TlsConfig, User, WebConfig

HASH = "$2y$10$VZCVRv8WeDTa9hEPOxHYFu1HQGsYhro7O9tTtIgF/SKNvLhCx1PrS"
WHOLE = f"""\
tls_server_config:
  cert_file: server.crt
  key_file: /etc/keys/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: clients.crt
  min_version: TLS13
  prefer_server_cipher_suites: true
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
basic_auth_users:
  reader: {HASH}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "web.yml"
    file.write_text(text)
    return file


def test_every_key_is_read_and_paths_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    assert web_config_from_file(file) == WebConfig(
        str(file),
        TlsConfig(
            str(tmp_path / "server.crt"),
            "/etc/keys/server.key",
            "RequireAndVerifyClientCert",
            str(tmp_path / "clients.crt"),
            "TLS13",
            "TLS13",
        ),
        (User("reader", HASH.encode()),),
        (("X-Frame-Options", "deny"),),
    )


def test_an_empty_file_secures_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "# nothing yet\n")
    assert web_config_from_file(file) == WebConfig(str(file))


def test_the_configuration_names_it_from_its_own_folder(tmp_path: Path) -> None:
    written(tmp_path, f"basic_auth_users: {{reader: {HASH}}}")
    main = tmp_path / "exporter.yaml"
    main.write_text("web_config_file: web.yml\ntargets: [{url: 'http://a:1'}]\n")
    assert configuration_from_file(main).web == WebConfig(
        str(tmp_path / "web.yml"), users=(User("reader", HASH.encode()),)
    )


def test_promtool_takes_the_same_file(promtool: str, tmp_path: Path) -> None:
    whole = WHOLE.replace("/etc/keys/server.key", "server.key")
    make_certificates(tmp_path)
    file = written(tmp_path, whole)
    checked = subprocess.run([promtool, "check", "web-config", str(file)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def make_certificates(folder: Path) -> None:
    """A certificate that is its own authority."""
    for name in ("server", "clients"):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")]
        subprocess.run([*command, *files, "-subj", f"/CN={name}"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("basic_auth: {}", "1: unknown key 'basic_auth'; did you mean 'basic_auth_users'?"),
        (
            "basic_auth_users:\n  reader: opensesame\n",
            "2: 'reader' must be a bcrypt hash such as 'htpasswd -nB NAME' prints after the ':'; "
            "got something else, not shown here",
        ),
        ("basic_auth_users:\n  'a:b': x\n", "2: a user name is not empty and has no ':'."),
        (
            "tls_server_config:\n  cert_file: a.crt\n",
            "2: 'tls_server_config' has no 'key_file'; name the PEM file of the server with it.",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}",
            "1: 'client_ca_file' is given but no client is asked for a certificate; "
            "add 'client_auth_type: RequireAndVerifyClientCert'.",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}",
            "1: RequireAndVerifyClientCert needs 'client_ca_file', the PEM file of the clients' authority.",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}",
            "1: 'client_auth_type' must be one of NoClientCert, VerifyClientCertIfGiven, "
            "RequireAndVerifyClientCert (certificates are verified or not asked for); "
            "got 'RequireAnyClientCert'",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}",
            "1: 'min_version' must be one of TLS12, TLS13; got 'TLS10'",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}",
            "1: 'min_version' TLS13 is above 'max_version' TLS12.",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, cipher_suites: [TLS_X]}",
            "1: 'cipher_suites' cannot be honoured here; leave it out, or put a proxy that knows it in front.",
        ),
        (
            "http_server_config: {headers: {Server: x}}",
            "1: unknown key 'Server'; known keys are Content-Security-Policy, Strict-Transport-Security, "
            "X-Content-Type-Options, X-Frame-Options, X-XSS-Protection.",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        web_config_from_file(file)
    assert str(refused.value) == f"{file}:{sentence}"
    assert refused.value.__cause__ is None or "opensesame" not in repr(refused.value.__cause__)
