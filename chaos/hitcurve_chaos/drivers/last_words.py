"""What a server's log says last of why it ended."""

import re
from pathlib import Path

__all__ = ["last_words"]

_TAIL_BYTES = 1024 * 1024
_MOST_CHARACTERS = 200
_ERROR = re.compile(r"\b(\w*(?:Error|Exception)): (\S.*)$")
_ECHOES = ("EngineDeadError",)
"""What vLLM's API server says of every request once its engine core is gone (0.32.0): never the cause."""


def last_words(log: Path) -> str | None:
    """The last error that the log names; ``None`` where it names none or cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        found = _ERROR.search(line)
        if found is not None and found[1] not in _ECHOES:
            return f"{found[1]}: {found[2]}"[:_MOST_CHARACTERS]
    return None
