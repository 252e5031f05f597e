"""The request of a prompt in the words of the OpenAI API, with what vLLM and SGLang add to it."""

import json
from typing import Any

import orjson

from hitcurve_loadtests.profiles.spec import Api
from hitcurve_loadtests.prompts import Prompt
from hitcurve_loadtests.settings import LoadSettings

__all__ = ["PATHS", "request_body", "request_headers"]

PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def request_headers(settings: LoadSettings) -> dict[str, str]:
    """Headers of every request. Compression is declined, since compressors hold events back."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
    }
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key}"
    return headers


def request_body(prompt: Prompt, model: str, settings: LoadSettings) -> bytes:
    """A streamed request whose last event tells the token counts."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": prompt.output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if settings.api == "chat":
        body["messages"] = [{"role": message.role, "content": message.text} for message in prompt.messages]
    else:
        body["prompt"] = prompt.text
    if settings.ignore_eos:
        body["ignore_eos"] = True
    salt = prompt.cache_salt if prompt.cache_salt is not None else settings.cache_salt
    if salt is not None:
        body["cache_salt"] = salt
    try:
        return orjson.dumps(body)
    except TypeError:
        # A reply may hold half a surrogate pair, which orjson refuses and JSON can escape.
        return json.dumps(body).encode()
