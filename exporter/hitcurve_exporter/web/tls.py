"""The server's side of TLS, from the files that a web configuration names."""

import ssl
from pathlib import Path
from typing import Final

from hitcurve.errors import UsageError
from hitcurve_exporter.configuration.web_records import TlsConfig

__all__ = ["authority_of_clients", "load_certificate", "server_context"]

_VERIFY: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


def server_context(config: TlsConfig) -> ssl.SSLContext:
    """A context to listen with; UsageError where a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    load_certificate(context, config)
    if config.client_ca_file is not None:
        try:
            context.load_verify_locations(cafile=config.client_ca_file)
        except OSError as error:
            raise UsageError(
                f"cannot use the client_ca_file {config.client_ca_file} ({_reason(error)}); "
                "name a readable PEM file with certificates."
            ) from error
    context.verify_mode = _VERIFY[config.client_auth]
    return context


def authority_of_clients(config: TlsConfig | None) -> bytes | None:
    """What the file of the clients' authority holds now; ``None`` where there is none to read."""
    if config is None or config.client_ca_file is None:
        return None
    try:
        return Path(config.client_ca_file).read_bytes()
    except OSError:
        return None


def load_certificate(context: ssl.SSLContext, config: TlsConfig) -> None:
    """Take the certificate from its files, for connections from now on; UsageError where that cannot be."""
    try:
        context.load_cert_chain(config.cert_file, config.key_file, password=_no_password)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot use the certificate {config.cert_file} with the key {config.key_file} ({_reason(error)}); "
            "name PEM files that belong together, the key without a password."
        ) from error


def _no_password() -> str:
    """Else OpenSSL asks for it on the terminal."""
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
