"""First contact: is there an engine, which models does it serve, how does it count tokens? For load processes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gevent import Timeout

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.openai_api import request_headers
from hitcurve_loadtests.sender import Destination
from hitcurve_loadtests.settings import LoadSettings
from hitcurve_loadtests.texts import ByteTexts, TextMaker
from hitcurve_loadtests.token_words import CountTokens, text_maker
from hitcurve_loadtests.transport import BROKEN, explain

__all__ = ["models_to_load", "texts_for"]

_MODELS = "/v1/models"
_TOKENIZE = "/tokenize"
_PATIENCE_S = 10.0


def models_to_load(places: list[Destination], settings: LoadSettings) -> tuple[str, ...]:
    """The models asked for, or the first one the first engine lists.

    EnvironmentFailed where a host does not answer, UsageError where the engine lists no model and none was named,
    or where the profile needs more of them.
    """
    answers = [_get_models(place, settings) for place in places]
    if len(settings.models) < settings.fewest_models > 1:
        raise UsageError(
            f"the profile '{settings.profile}' asks {settings.fewest_models} adapters and {len(settings.models)} "
            "are named; name each with --model."
        )
    if settings.models:
        return settings.models
    status, names = answers[0]
    if not names:
        raise UsageError(
            f"{settings.host}{_MODELS} lists no model (HTTP {status}); name the model with --model, "
            "or correct --host if that is not an OpenAI-compatible engine."
        )
    return (names[0],)


def texts_for(place: Destination, model: str, settings: LoadSettings) -> tuple[TextMaker, str]:
    """How to make texts of exact length for this engine, and whose tokens those are."""
    choice = settings.tokenizer
    if choice == "bytes":
        return ByteTexts(), "bytes"
    if choice != "auto":
        maker = text_maker(_local_counter(Path(choice)))
        if maker is None:
            raise UsageError(f"--tokenizer {choice}: it has too few words of one token; use --tokenizer bytes.")
        return maker, choice
    counter = _engine_counter(place, model, settings)
    maker = None if counter is None else text_maker(counter)
    return (ByteTexts(), "bytes") if maker is None else (maker, f"{settings.host}{_TOKENIZE}")


def _get_models(place: Destination, settings: LoadSettings) -> tuple[int, list[str]]:
    try:
        status, answer = _ask(place, "GET", _MODELS, None, settings)
    except BROKEN as error:
        raise EnvironmentFailed(
            f"no engine answers at {place.host} ({explain(error)}); start it or correct --host."
        ) from error
    models = answer.get("data") if status == 200 and isinstance(answer, Mapping) else None
    names = [model.get("id") for model in models if isinstance(model, Mapping)] if isinstance(models, list) else []
    return status, [str(name) for name in names if name]


def _engine_counter(place: Destination, model: str, settings: LoadSettings) -> CountTokens | None:
    """Counts with the engine's ``/tokenize`` (vLLM); ``None`` where it has none."""

    def count(text: str) -> int:
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        status, answer = _ask(place, "POST", _TOKENIZE, json.dumps(body).encode(), settings)
        if status != 200 or not isinstance(answer, Mapping) or not isinstance(answer.get("count"), int):
            raise ValueError(f"HTTP {status}")
        return int(answer["count"])

    try:
        count("x")
    except (*BROKEN, ValueError):
        return None
    return count


def _local_counter(path: Path) -> CountTokens:
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise UsageError(
            "--tokenizer FILE needs the package 'tokenizers'; install it with: pip install tokenizers"
        ) from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise UsageError(f"--tokenizer {path} cannot be read ({error}); name a tokenizer.json.") from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _ask(
    place: Destination, method: str, path: str, body: bytes | None, settings: LoadSettings
) -> tuple[int, Any]:
    headers = {**request_headers(settings), "Accept": "application/json"}
    with Timeout(_PATIENCE_S):
        response = place.client.request(method, place.base_path + path, body=body, headers=headers)
        status, text = response.status_code, bytes(response.read())
    try:
        return status, json.loads(text)
    except ValueError:
        return status, None
