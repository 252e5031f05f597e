"""POST /v1/completions."""

from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from hitcurve_simulator.server import tokenizer
from hitcurve_simulator.server.answers import CompletionAnswer, usage, usage_so_far
from hitcurve_simulator.server.api_error import bad_body, bad_parameter
from hitcurve_simulator.server.generation import Delivery, Generation
from hitcurve_simulator.server.http_replies import json_reply, read_body, request_id, stream_reply
from hitcurve_simulator.server.logprobs import prompt_logprobs
from hitcurve_simulator.server.parameters import Parameters, read_parameters
from hitcurve_simulator.server.request_body import RequestBody
from hitcurve_simulator.server.sequence import Sequence
from hitcurve_simulator.server.serving import Serving

__all__ = ["CompletionsApi", "read_prompts"]

DEFAULT_MAX_TOKENS = 16


class CompletionsApi:
    """Completes one prompt or several, text or token ids."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def post(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request)
        serving = self._serving
        model = body.text("model")
        parameters = read_parameters(body, default_max_tokens=DEFAULT_MAX_TOKENS)
        adapter = serving.adapters.find(model)
        prompts = read_prompts(body)
        answer_id = request_id(request, body, "cmpl")
        answer = CompletionAnswer(
            answer_id, int(serving.clock.wall()), model or serving.settings.model, serving.fingerprint
        )
        async with serving.generator.start(prompts, parameters, adapter, answer_id) as generation:
            if parameters.stream:
                return await stream_reply(request, self._chunks(answer, generation, parameters))
            return await self._whole(answer, generation, parameters)

    async def _whole(
        self, answer: CompletionAnswer, generation: Generation, parameters: Parameters
    ) -> web.StreamResponse:
        ended: list[Delivery] = [delivery async for delivery in generation.deliveries()]
        choices = []
        for delivery in sorted(ended, key=lambda one: one.sequence.index):
            prompt = delivery.sequence.request.prompt_token_ids or ()
            text = tokenizer.decode(prompt) + delivery.text if parameters.echo else delivery.text
            logprobs = prompt_logprobs(prompt) if parameters.prompt_logprobs is not None else None
            choices.append(answer.choice(delivery, text, logprobs, parameters.return_token_ids))
        last = ended[-1].sequence
        used = usage(generation.samples, last, created_cache_tokens=None, whole=True)
        return json_reply(answer.whole(choices, used))

    async def _chunks(
        self, answer: CompletionAnswer, generation: Generation, parameters: Parameters
    ) -> AsyncIterator[dict[str, Any]]:
        speaker: Sequence | None = None
        async for delivery in generation.deliveries():
            sequence = delivery.sequence
            speaker = speaker or sequence
            first = delivery.delivered == len(delivery.tokens)
            echoed = tokenizer.decode(sequence.request.prompt_token_ids or ()) if parameters.echo and first else ""
            chunk: dict[str, Any] = answer.chunk(delivery, echoed + delivery.text, parameters)
            if parameters.continuous_usage:
                chunk["usage"] = usage_so_far(delivery)
            if generation.ended and not parameters.include_usage:
                chunk["system_fingerprint"] = answer.fingerprint
            yield chunk
        if parameters.include_usage and speaker is not None:
            used = usage(generation.samples, speaker, created_cache_tokens=None, whole=False)
            yield answer.usage_chunk(used)


def read_prompts(body: RequestBody) -> list[list[int]]:
    """Token ids of a string, a list of strings, a list of ids or a list of lists; ApiError (400) otherwise."""
    prompt = body.values.get("prompt")
    if prompt is None or prompt == "":
        raise bad_parameter("prompt", "prompt must be given and not be empty. (parameter=prompt)")
    if isinstance(prompt, str):
        return [tokenizer.encode(prompt)]
    if not isinstance(prompt, list):
        raise bad_body("body.prompt", "prompt must be a string, or a list of strings or token ids.")
    if not prompt:
        raise bad_parameter(None, "At least one prompt must be given.")
    if all(isinstance(one, int) and not isinstance(one, bool) for one in prompt):
        return [_checked(prompt)]
    if all(isinstance(one, str) for one in prompt):
        return [tokenizer.encode(one) for one in prompt]
    if all(isinstance(one, list) for one in prompt):
        return [_checked(one) for one in prompt]
    raise bad_body("body.prompt", "prompt must be a string, or a list of strings or token ids.")


def _checked(tokens: list[Any]) -> list[int]:
    if not tokens:
        raise bad_parameter(None, "A prompt of token ids must not be empty.")
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool):
            raise bad_body("body.prompt", "token ids must be integers.")
        if not 0 <= token < tokenizer.VOCABULARY_SIZE:
            raise bad_parameter(None, f"Token id {token} is out of vocabulary")
    return tokens
