"""The requests of a profile as a trace, without an engine: what ``hitcurve estimate`` and ``simulate`` read."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve.whole_file import whole_file
from hitcurve_loadtests.intended import planned
from hitcurve_loadtests.plan import LoadPlan
from hitcurve_loadtests.texts import Texts

__all__ = ["planned_rows", "write_planned_trace"]

_REQUESTS = 500


def planned_rows(plan: LoadPlan) -> Iterator[dict[str, Any]]:
    """A row a request: prompt and stand-in reply, in bytes as tokens; adapters by rank."""
    settings = plan.settings
    texts = Texts(settings.seed, settings.worker)
    requests = planned(plan.make_traffic(texts), texts, chat=settings.api == "chat")
    for request in islice(requests, settings.requests or _REQUESTS):
        row: dict[str, Any] = {"prompt": request.text, "output_length": len(request.reply)}
        if request.prompt.model_rank is not None:
            row["lora"] = f"adapter-{request.prompt.model_rank}"
        if request.prompt.cache_salt is not None:
            row["cache_salt"] = request.prompt.cache_salt
        if request.prompt.session is not None:
            row["session"] = str(request.prompt.session)
        yield {**row, "response": {"choices": [{"text": request.reply}]}}


def write_planned_trace(plan: LoadPlan, path: Path) -> None:
    """One JSON object a line; UsageError where the file cannot be written."""
    try:
        with whole_file(path) as draft, draft.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in planned_rows(plan))
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file.") from error
