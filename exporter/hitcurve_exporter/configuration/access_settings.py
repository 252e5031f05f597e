"""The keys ``tls_config``, ``basic_auth`` and ``authorization``, spelled as Prometheus spells them."""

import re
from pathlib import Path
from typing import Final

from hitcurve_exporter.configuration.access_records import EngineAccess, EngineTls, SecretSource
from hitcurve_exporter.configuration.yaml_document import Section, Unsuitable, a_flag, a_text

__all__ = ["ACCESS_KEYS", "read_access"]

ACCESS_KEYS: Final = ("tls_config", "basic_auth", "authorization")
_TLS_KEYS: Final = ("ca_file", "cert_file", "key_file", "server_name", "insecure_skip_verify")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


def read_access(section: Section, folder: Path, default: EngineAccess | None = None) -> EngineAccess | None:
    """What ``section`` says, ``default`` where it says nothing. Relative paths start from ``folder``."""
    if not any(key in section for key in ACCESS_KEYS):
        return default
    basic = section.section("basic_auth", "{username: hitcurve, password_file: password.txt}")
    bearer = section.section("authorization", "credentials_file: token.txt")
    if basic is not None and bearer is not None:
        raise section.wrong_at("authorization", "'basic_auth' and 'authorization' exclude each other; keep one.")
    tls = section.section("tls_config", "ca_file: authority.crt")
    return EngineAccess(
        None if tls is None else _tls(tls, folder),
        None if basic is None else _user(basic),
        None if basic is None else _secret(basic, "password", folder),
        None if bearer is None else _secret(bearer, "credentials", folder),
        "Bearer" if bearer is None else bearer.read("type", _a_type, "Bearer"),
    )


def _user(section: Section) -> str:
    section.allow_only(("username", "password_file", "password_env", "password"))
    if "username" not in section:
        raise section.wrong("'basic_auth' has no 'username'; add it.")
    return section.read("username", _a_user, "")


def _secret(section: Section, key: str, folder: Path) -> SecretSource:
    """A secret in the configuration itself would be shown with it, so it is refused."""
    if key == "credentials":
        section.allow_only(("type", "credentials_file", "credentials_env", "credentials"))
    if key in section:
        raise section.wrong_at(
            key, f"secrets belong into a file or the environment; name it in '{key}_file' or '{key}_env'."
        )
    file = section.read(f"{key}_file", a_text, None)
    variable = section.read(f"{key}_env", _a_variable, None)
    if (file is None) == (variable is None):
        raise section.wrong(f"name either '{key}_file' or '{key}_env' here.")
    return SecretSource(None if file is None else str(folder / file), variable)


def _tls(section: Section, folder: Path) -> EngineTls:
    section.allow_only(_TLS_KEYS)
    if ("cert_file" in section) != ("key_file" in section):
        raise section.wrong("'cert_file' and 'key_file' come together; name both, or neither.")

    def path(key: str) -> str | None:
        file = section.read(key, a_text, None)
        return None if file is None else str(folder / file)

    return EngineTls(
        path("ca_file"),
        path("cert_file"),
        path("key_file"),
        section.read("server_name", a_text, None),
        section.read("insecure_skip_verify", a_flag, False),
    )


def _a_user(text: str) -> str:
    if ":" in text or not text:
        raise Unsuitable("a name without ':'")
    return text


def _a_variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise Unsuitable("the name of a variable of the environment")
    return text


def _a_type(text: str) -> str:
    if not _TYPE.fullmatch(text):
        raise Unsuitable("an authorization type such as Bearer")
    return text
