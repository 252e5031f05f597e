"""How the exporter's own address is secured: frozen records of a web configuration file."""

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["CLIENT_AUTH_TYPES", "ClientAuth", "TlsConfig", "User", "WebConfig"]

ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
CLIENT_AUTH_TYPES: tuple[ClientAuth, ...] = (
    "NoClientCert",
    "VerifyClientCertIfGiven",
    "RequireAndVerifyClientCert",
)


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Files of the server's certificate and of the authority that signs client certificates."""

    cert_file: str
    key_file: str
    client_auth: ClientAuth = "NoClientCert"
    client_ca_file: str | None = None
    min_version: str = "TLS12"
    max_version: str = "TLS13"


@dataclass(frozen=True, slots=True)
class User:
    """Who may read; ``password_hash`` is bcrypt's and appears in no text."""

    name: str
    password_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Without TLS plain HTTP is spoken; without users nobody is asked for a password."""

    file: str | None = None
    tls: TlsConfig | None = None
    users: tuple[User, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
