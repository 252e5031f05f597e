"""Basic authentication against bcrypt hashes, at the price of one hash per new password."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

import bcrypt
from aiohttp import BasicAuth, hdrs, web
from aiohttp.typedefs import Handler, Middleware

from hitcurve_exporter.configuration.web_records import User

__all__ = ["PasswordCheck", "password_middleware"]

_MOST_REMEMBERED: Final = 256
_LONGEST_PASSWORD: Final = 72
"""bcrypt reads no more, and newer versions of the library refuse more."""
_NOBODY: Final = b"$2b$10$VZCVRv8WeDTa9hEPOxHYFu1HQGsYhro7O9tTtIgF/SKNvLhCx1PrS"
"""Checked for unknown users, so that they take as long as known ones."""


class PasswordCheck:
    """Knows the users; ``replace`` changes them while requests are answered.

    One hash is computed at a time, in a thread: a flood of wrong passwords takes one core and delays no scrape.
    Passwords that were right are remembered, as a digest.
    """

    def __init__(self, users: Sequence[User]) -> None:
        self._hashing = asyncio.Lock()
        self._right: set[bytes] = set()
        self.replace(users)

    def replace(self, users: Sequence[User]) -> None:
        """Other users from now on."""
        self._hashes = {user.name: user.password_hash for user in users}
        self._right.clear()

    async def admits(self, authorization: str) -> bool:
        """Whether the header names a user with its password; everybody is admitted where there are no users."""
        if not self._hashes:
            return True
        try:
            given = BasicAuth.decode(authorization, encoding="utf-8")
        except ValueError:
            return False
        password = given.password.encode()[:_LONGEST_PASSWORD]
        known = self._hashes.get(given.login)
        digest = hashlib.sha256(b"\0".join([given.login.encode(), known or b"", password])).digest()
        if digest in self._right:
            return True
        async with self._hashing:
            right = await asyncio.to_thread(_is_right, password, known or _NOBODY) and known is not None
        if right and self._hashes.get(given.login) == known:
            if len(self._right) >= _MOST_REMEMBERED:
                self._right.clear()
            self._right.add(digest)
        return right


def password_middleware(check: PasswordCheck) -> Middleware:
    """Asks for a password before anything else is looked at."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if await check.admits(request.headers.get(hdrs.AUTHORIZATION, "")):
            return await handler(request)
        headers = {hdrs.WWW_AUTHENTICATE: 'Basic realm="hitcurve exporter"'}
        return web.Response(text="Unauthorized\n", status=401, headers=headers)

    return guard


def _is_right(password: bytes, password_hash: bytes) -> bool:
    try:
        return bcrypt.checkpw(password, password_hash)
    except ValueError:
        return False
