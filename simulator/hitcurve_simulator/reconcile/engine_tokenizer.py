"""The engine's own tokenizer and chat template, asked over HTTP (vLLM's ``POST /tokenize``)."""

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from hitcurve.errors import EnvironmentFailed

__all__ = ["EngineTokenizer"]

_TIMEOUT_S = 30.0
_PATH = "/tokenize"


class EngineTokenizer:
    """Prompts go back to the engine that served them; one request each."""

    def __init__(self, url: str) -> None:
        """``url``: any address of the engine, such as that of its page."""
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._netloc = parts.netloc
        self._secure = parts.scheme == "https"

    def token_ids(self, text: str) -> list[int]:
        """Tokens of a prompt, special ones as the engine adds them. Raises EnvironmentFailed."""
        return self._ask({"prompt": text})

    def chat_token_ids(self, messages: Sequence[object]) -> list[int]:
        """Tokens of a chat by the engine's template. Raises EnvironmentFailed."""
        first = messages[0] if messages else None
        if isinstance(first, Mapping) and first.get("role") == "tools":
            return self._ask({"messages": list(messages[1:]), "tools": json.loads(str(first["content"]))})
        return self._ask({"messages": list(messages)})

    def _ask(self, body: dict[str, Any]) -> list[int]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._netloc, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", _PATH, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise EnvironmentFailed(
                    f"{self._origin}{_PATH} answers HTTP {response.status}; give --tokenizer bytes or the model's "
                    "folder."
                )
            tokens: list[int] = json.loads(answer)["tokens"]
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            raise EnvironmentFailed(
                f"{self._origin}{_PATH} cannot be asked ({error or type(error).__name__}); give --tokenizer."
            ) from None
        finally:
            connection.close()
        return tokens
