"""Writing a page whole or not at all."""

import os
import tempfile
from pathlib import Path

from hitcurve.errors import UsageError

__all__ = ["write_html"]


def write_html(path: Path, html: str) -> None:
    """Write a page where ``--html`` wants it. Raises UsageError, and leaves nothing behind, where it cannot be."""
    scratch: str | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".html", delete=False, encoding="utf-8"
        ) as file:
            scratch = file.name
            file.write(html)
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)
    except OSError as error:
        if scratch is not None and os.path.exists(scratch):
            os.unlink(scratch)
        raise UsageError(f"{path} cannot be written: {error.strerror}; give --html a file to write.") from None
