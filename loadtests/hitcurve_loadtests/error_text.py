"""What an answer says went wrong, in the shapes that engines give it."""

from collections.abc import Mapping
from typing import Any

__all__ = ["error_text"]


def error_text(answer: Mapping[str, Any]) -> str | None:
    """Message of an error object in one of its usual shapes; ``None`` where the answer holds no error."""
    error = answer.get("error")
    if error is None and answer.get("object") == "error":
        error = answer
    if error is None:
        return None
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("code") or "no message"
    return " ".join(str(error).split()).encode("utf-8", "replace").decode()
