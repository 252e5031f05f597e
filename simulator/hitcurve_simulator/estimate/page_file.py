"""Writing a page whole or not at all."""

from pathlib import Path

from hitcurve.errors import UsageError
from hitcurve.whole_file import write_whole

__all__ = ["write_html"]


def write_html(path: Path, html: str) -> None:
    """Write a page where ``--html`` wants it. Raises UsageError, and leaves nothing behind, where it cannot be."""
    try:
        write_whole(path, html)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; give --html a file to write.") from None
