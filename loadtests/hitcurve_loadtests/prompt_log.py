"""What was asked and answered, request by request, for ``hitcurve reconcile``: prompts.jsonl of a run folder."""

import os
from pathlib import Path
from typing import Any

import orjson

from hitcurve.errors import EnvironmentFailed
from hitcurve_loadtests.records import RequestRecord

__all__ = ["PROMPTS_FILE", "PromptLog"]

PROMPTS_FILE = "prompts.jsonl"


class PromptLog:
    """Appends one line a request, in a single write, so that several processes may share the file.

    It holds prompts and replies in clear text: it is written only where that is asked for.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def append(self, body: bytes, record: RequestRecord, reply: str) -> None:
        """The body as it was sent, times, outcome, usage and reply; EnvironmentFailed where the disk refuses."""
        request = orjson.loads(body)
        content: dict[str, Any] = {"message": {"content": reply}} if "messages" in request else {"text": reply}
        line = {
            "at_s": record.at_s,
            "duration_s": record.duration_s,
            "load": record.load,
            "group": record.group,
            "outcome": record.outcome,
            "reason": record.reason,
            "status": record.status,
            "request": request,
            "response": {
                "choices": [content],
                "usage": {
                    "prompt_tokens": record.prompt_tokens,
                    "completion_tokens": record.completion_tokens,
                    "prompt_tokens_details": {"cached_tokens": record.cached_tokens},
                },
            },
        }
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
            os.write(self._descriptor, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise EnvironmentFailed(f"the prompts cannot be written to {self._path}: {error.strerror}.") from error
