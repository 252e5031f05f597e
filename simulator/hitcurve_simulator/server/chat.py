"""POST /v1/chat/completions."""

from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from hitcurve_simulator.server import tokenizer
from hitcurve_simulator.server.answers import ChatAnswer, usage, usage_so_far
from hitcurve_simulator.server.api_error import bad_body, bad_parameter
from hitcurve_simulator.server.generation import Generation
from hitcurve_simulator.server.http_replies import json_reply, read_body, request_id, stream_reply
from hitcurve_simulator.server.images import IMAGE, place_images
from hitcurve_simulator.server.logprobs import prompt_logprobs
from hitcurve_simulator.server.parameters import Parameters, read_parameters
from hitcurve_simulator.server.request_body import RequestBody
from hitcurve_simulator.server.sequence import Sequence
from hitcurve_simulator.server.serving import Serving

__all__ = ["ChatApi", "chat_text", "read_messages"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class ChatApi:
    """Answers a chat; the prompt is the chat template's text (``tokenizer.render_chat``)."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def post(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        serving = self._serving
        model = body.text("model")
        parameters = read_parameters(body, default_max_tokens=None)
        messages, images = read_messages(body)
        adapter = serving.adapters.find(model)
        text = chat_text(body, messages)
        answer_id = request_id(request, body, "chatcmpl")
        answer = ChatAnswer(
            answer_id, int(serving.clock.wall()), model or serving.settings.model, serving.fingerprint
        )
        prompt = tokenizer.encode(text)
        placed = place_images(prompt, images)
        async with serving.generator.start([prompt], parameters, adapter, answer_id, placed) as generation:
            if parameters.stream:
                return await stream_reply(request, self._chunks(answer, generation, parameters))
            return await self._whole(answer, generation, parameters)

    async def _whole(
        self, answer: ChatAnswer, generation: Generation, parameters: Parameters
    ) -> web.StreamResponse:
        ended = [delivery async for delivery in generation.deliveries()]
        in_order = sorted(ended, key=lambda one: one.sequence.index)
        choices = [answer.choice(delivery, parameters.return_token_ids) for delivery in in_order]
        prompt = list(generation.samples[0].request.prompt_token_ids or ())
        body = answer.whole(
            choices,
            self._usage(generation.samples, ended[-1].sequence, whole=True),
            prompt_logprobs(prompt) if parameters.prompt_logprobs is not None else None,
            prompt if parameters.return_token_ids else None,
        )
        return json_reply(body)

    async def _chunks(
        self, answer: ChatAnswer, generation: Generation, parameters: Parameters
    ) -> AsyncIterator[dict[str, Any]]:
        speaker: Sequence | None = None
        async for delivery in generation.deliveries():
            sequence = delivery.sequence
            if speaker is None:
                speaker = sequence
                for sample in generation.samples:
                    yield answer.role_chunk(sample.index)
            chunk: dict[str, Any] = answer.chunk(delivery, parameters.return_token_ids)
            if parameters.continuous_usage:
                chunk["usage"] = usage_so_far(delivery)
            if generation.ended and not parameters.include_usage:
                chunk["system_fingerprint"] = answer.fingerprint
            yield chunk
        if parameters.include_usage and speaker is not None:
            yield answer.usage_chunk(self._usage(generation.samples, speaker, whole=False))

    def _usage(self, samples: list[Sequence], speaker: Sequence, *, whole: bool) -> dict[str, Any]:
        """Chat answers also say how many prompt tokens were newly written to the cache: those of full blocks."""
        block = self._serving.settings.block_size
        created = max(0, speaker.prompt_tokens // block * block - speaker.hit_tokens)
        return usage(samples, speaker, created_cache_tokens=created, whole=whole)


def chat_text(body: RequestBody, messages: list[tuple[str, str]]) -> str:
    """The prompt of a chat, with the body's wishes for its end."""
    return tokenizer.render_chat(
        messages,
        ask_for_reply=body.boolean("add_generation_prompt", True),
        keep_last_open=body.boolean("continue_final_message"),
    )


def read_messages(body: RequestBody) -> tuple[list[tuple[str, str]], list[str]]:
    """(role, content) of each message, and the addresses of its images in order. ApiError (400) otherwise.

    Content is a string, or parts: text, or an image, which becomes a placeholder of fixed length in the text.
    """
    messages = body.values.get("messages")
    if messages is None:
        raise bad_body("body.messages", "messages are missing.")
    if not isinstance(messages, list):
        raise bad_body("body.messages", "messages must be a list.")
    if not messages:
        raise bad_parameter(None, "The chat has no message; give at least one.")
    images: list[str] = []
    return [_message(at, message, images) for at, message in enumerate(messages)], images


def _message(at: int, message: object, images: list[str]) -> tuple[str, str]:
    where = f"body.messages.{at}"
    if not isinstance(message, dict):
        raise bad_body(where, "a message must be an object with role and content.")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise bad_body(f"{where}.role", "a message must have a role.")
    if role not in ROLES:
        raise bad_body(f"{where}.role", f"there is no role '{role[:40]}'; there are: {', '.join(ROLES)}.")
    if content is None:
        return role, ""
    if isinstance(content, str):
        return role, content
    if not isinstance(content, list):
        raise bad_body(f"{where}.content", "content must be a string or a list of parts.")
    return role, "\n".join(_part(f"{where}.content", part, images) for part in content)


def _part(where: str, part: object, images: list[str]) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    image = part.get("image_url") if isinstance(part, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        raise bad_body(where, "only parts of type 'text' and 'image_url' are understood.")
    images.append(url)
    return IMAGE
