"""Why nobody can listen at an address."""

import os

__all__ = ["why_not_listening"]


def why_not_listening(error: OSError) -> str:
    """In a few words, of an error of ``socket``, ``http.server`` or ``asyncio``, which each wrap it otherwise."""
    said = error.strerror or str(error)
    if said.startswith("error while attempting"):
        return os.strerror(error.errno or 0)
    return said.partition(" (while attempting")[0]
