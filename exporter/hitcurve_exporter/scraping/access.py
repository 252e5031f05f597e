"""Credentials and TLS for requests to engines, read anew as files change. No error here shows a secret."""

import base64
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from hitcurve_exporter.configuration.access_records import EngineAccess, EngineTls, SecretSource

__all__ = ["AccessFailed", "Credentials", "authorization_of"]

_MOST_SECRET_BYTES = 64 * 1024


class AccessFailed(Exception):
    """A file or variable cannot be used; the message says which and why."""


class Credentials:
    """Keeps one TLS context for each configuration, until one of its files is written anew."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._contexts: dict[EngineTls, tuple[tuple[tuple[int, int], ...], ssl.SSLContext]] = {}

    def headers(self, access: EngineAccess | None) -> dict[str, str]:
        """The header that proves who asks, if any; AccessFailed where its secret cannot be read."""
        text = authorization_of(access, self._environment) if access is not None else None
        return {} if text is None else {"Authorization": text}

    def context(self, access: EngineAccess | None) -> ssl.SSLContext | None:
        """``None`` for the usual one; AccessFailed where a file cannot be used."""
        tls = None if access is None else access.tls
        if tls is None:
            return None
        try:
            files = [file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file is not None]
            written = tuple((state.st_mtime_ns, state.st_size) for state in map(os.stat, files))
            known = self._contexts.get(tls)
            if known is None or known[0] != written:
                known = self._contexts[tls] = (written, _context(tls))
            return known[1]
        except (OSError, ValueError) as error:
            raise AccessFailed(f"a file of tls_config cannot be used ({_reason(error)})") from None


def authorization_of(access: EngineAccess, environment: Mapping[str, str]) -> str | None:
    """Value of the header ``Authorization``; ``None`` where nobody proves anything."""
    if access.token is not None:
        return f"{access.token_type} {_secret(access.token, environment)}"
    if access.user is None or access.password is None:
        return None
    pair = f"{access.user}:{_secret(access.password, environment)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _secret(source: SecretSource, environment: Mapping[str, str]) -> str:
    if source.file is None:
        secret = environment.get(source.variable or "", "")
    else:
        try:
            with Path(source.file).open("rb") as file:
                secret = file.read(_MOST_SECRET_BYTES).decode().split("\n", 1)[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AccessFailed(f"the secret in {source.name} cannot be read ({_reason(error)})") from None
    if not secret or not secret.isprintable():
        raise AccessFailed(f"there is no secret in {source.name}")
    return secret


def _context(tls: EngineTls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    return context


def _no_password() -> str:
    """Else OpenSSL asks for it on the terminal."""
    raise ValueError("the key has a password")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or 'unreadable'}{where}"
    return "the key has a password" if "password" in str(error) else "not UTF-8 text"
