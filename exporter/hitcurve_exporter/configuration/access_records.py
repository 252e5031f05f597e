"""How the exporter proves itself to engines and they to it: names of files, never secrets."""

from dataclasses import dataclass

__all__ = ["EngineAccess", "EngineTls", "SecretSource"]


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Where a secret is: a file, whose first line is read for every scrape, or a variable of the environment."""

    file: str | None = None
    variable: str | None = None

    @property
    def name(self) -> str:
        """The place, for people."""
        return self.file or f"the variable {self.variable}"


@dataclass(frozen=True, slots=True)
class EngineTls:
    """Files for TLS to engines; without ``ca_file`` the system's authorities are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    """The name that the engine's certificate has to bear, where it is not that of its address."""
    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class EngineAccess:
    """Either a user with a password or a token, or neither."""

    tls: EngineTls | None = None
    user: str | None = None
    password: SecretSource | None = None
    token: SecretSource | None = None
    token_type: str = "Bearer"
