"""POST /tokenize, as vLLM 0.32 answers it: the token ids of a prompt, or of a chat by the chat template."""

from aiohttp import web

from hitcurve_simulator.server import tokenizer
from hitcurve_simulator.server.api_error import bad_parameter
from hitcurve_simulator.server.chat import chat_text, read_messages
from hitcurve_simulator.server.http_replies import json_reply, read_body
from hitcurve_simulator.server.serving import Serving

__all__ = ["TokenizeApi"]


class TokenizeApi:
    """Tells what a prompt is made of, without generating anything."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def post(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        self._serving.adapters.find(body.text("model"))
        text = chat_text(body, read_messages(body)[0]) if "messages" in body.values else body.text("prompt")
        if text is None:
            raise bad_parameter("prompt", "prompt or messages must be given. (parameter=prompt)")
        tokens = tokenizer.encode(text)
        strings = [tokenizer.decode([token]) for token in tokens] if body.boolean("return_token_strs") else None
        limit = self._serving.settings.max_model_len
        return json_reply({"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": strings})
