"""Writing files."""

import os
import tempfile
from pathlib import Path

from hitcurve.errors import EnvironmentFailed

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; EnvironmentFailed where the system refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise EnvironmentFailed(f"cannot write {path}: {error.strerror}; choose another folder.") from error
