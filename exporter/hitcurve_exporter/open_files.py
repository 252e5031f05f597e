"""How many files and connections the process may have open."""

import resource
from typing import Final

__all__ = ["allow_many_files"]

_OPEN_FILES: Final = 16_384


def allow_many_files() -> None:
    """A thousand engines are a thousand connections, and the usual soft limit is 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
