"""First contact: is there an engine, and which models does it serve? For the load process only (gevent)."""

import json

from gevent import Timeout
from geventhttpclient import HTTPClient

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.openai_api import request_headers
from hitcurve_loadtests.settings import LoadSettings
from hitcurve_loadtests.transport import BROKEN, explain

__all__ = ["models_to_load"]

_MODELS = "/v1/models"
_PATIENCE_S = 10.0


def models_to_load(client: HTTPClient, base_path: str, settings: LoadSettings) -> tuple[str, ...]:
    """The models asked for, or the first one the engine lists.

    EnvironmentFailed where nothing answers, UsageError where the engine lists no model and none was named.
    """
    headers = {**request_headers(settings), "Accept": "application/json"}
    try:
        with Timeout(_PATIENCE_S):
            response = client.request("GET", base_path + _MODELS, headers=headers)
            status, body = response.status_code, bytes(response.read())
    except BROKEN as error:
        raise EnvironmentFailed(
            f"no engine answers at {settings.host} ({explain(error)}); start it or correct --host."
        ) from error
    if settings.models:
        return settings.models
    try:
        names = [model["id"] for model in json.loads(body)["data"]] if status == 200 else []
    except (ValueError, TypeError, LookupError):
        names = []
    if not names:
        raise UsageError(
            f"{settings.host}{_MODELS} lists no model (HTTP {status}); name the model with --model, "
            "or correct --host if that is not an OpenAI-compatible engine."
        )
    return (str(names[0]),)
