"""Files that are written whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file", "write_whole"]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A draft beside ``path`` to write in the block; it takes the place of ``path`` at its end.

    Whatever is raised, Ctrl-C included, leaves what was at ``path`` and nothing beside it; to put an OSError into
    words is left to the caller. Two processes may write the same file: the later one's is there then.
    """
    draft = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def write_whole(path: Path, text: str) -> None:
    """Put ``text`` at ``path`` as UTF-8, in one step."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
