"""The JSON of completions and chat completions, field by field as vLLM 0.32 writes it."""

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

from hitcurve_simulator.server.generation import Delivery
from hitcurve_simulator.server.parameters import Parameters
from hitcurve_simulator.server.sequence import Sequence

__all__ = ["ChatAnswer", "CompletionAnswer", "usage", "usage_so_far"]


def usage(
    samples: Many[Sequence], speaker: Sequence, *, created_cache_tokens: int | None, whole: bool
) -> dict[str, Any]:
    """Usage of an answer; ``whole``: one that is not streamed names further fields.

    A prompt counts once, however many samples were drawn from it, and the cached tokens are those of one sample,
    the ``speaker``: the one that answered first in a stream, else the one that ended last. That is what vLLM
    does, although its counters add up every sample.
    """
    prompts = {id(sample.family): sample.prompt_tokens for sample in samples}
    prompt, completion = sum(prompts.values()), sum(sample.delivered for sample in samples)
    details: dict[str, Any] = {"cached_tokens": speaker.hit_tokens}
    counts = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
    if whole or created_cache_tokens is not None:
        details["created_cache_tokens"] = created_cache_tokens
    if not whole:
        return {**counts, "prompt_tokens_details": details}
    details["multimodal_tokens"] = None
    return {**counts, "prompt_tokens_details": details, "completion_tokens_details": None}


def usage_so_far(delivery: Delivery) -> dict[str, int]:
    """Usage in each chunk, where ``continuous_usage_stats`` asks for it."""
    prompt, completion = delivery.sequence.prompt_tokens, delivery.delivered
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


@dataclass(frozen=True, slots=True)
class _Answer:
    request_id: str
    created: int
    model: str
    fingerprint: str

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.request_id, "object": kind, "created": self.created, "model": self.model}

    def _tail(self, used: dict[str, Any]) -> dict[str, Any]:
        return {"service_tier": None, "system_fingerprint": self.fingerprint, "usage": used}


_TRANSFERS: dict[str, Any] = {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}


@dataclass(frozen=True, slots=True)
class CompletionAnswer(_Answer):
    """Answers of /v1/completions."""

    def whole(self, choices: list[dict[str, Any]], used: dict[str, Any]) -> dict[str, Any]:
        return {**self._head("text_completion"), "choices": choices, **self._tail(used), **_TRANSFERS}

    def choice(
        self, delivery: Delivery, text: str, prompt_logprobs: list[Any] | None, token_ids: bool
    ) -> dict[str, Any]:
        sequence = delivery.sequence
        return {
            "index": sequence.index,
            "text": text,
            "logprobs": None,
            "finish_reason": delivery.finish,
            "stop_reason": sequence.stop_reason,
            "token_ids": delivery.tokens if token_ids else None,
            "prompt_logprobs": prompt_logprobs,
            "prompt_token_ids": list(sequence.request.prompt_token_ids or ()) if token_ids else None,
            "routed_experts": None,
        }

    def chunk(self, delivery: Delivery, text: str, parameters: Parameters) -> dict[str, Any]:
        """One chunk; the first of a choice holds the prompt's ids where they or the prompt are asked for."""
        sequence, token_ids = delivery.sequence, parameters.return_token_ids
        first = (token_ids or parameters.echo) and delivery.delivered == len(delivery.tokens)
        choice = {
            "index": sequence.index,
            "text": text,
            "logprobs": None,
            "finish_reason": delivery.finish,
            "stop_reason": sequence.stop_reason if delivery.finish else None,
            "prompt_token_ids": list(sequence.request.prompt_token_ids or ()) if first else None,
            "token_ids": delivery.tokens if token_ids else None,
        }
        return {**self._head("text_completion"), "choices": [choice]}

    def usage_chunk(self, used: dict[str, Any]) -> dict[str, Any]:
        return {
            **self._head("text_completion"),
            "choices": [],
            "usage": used,
            "system_fingerprint": self.fingerprint,
        }


@dataclass(frozen=True, slots=True)
class ChatAnswer(_Answer):
    """Answers of /v1/chat/completions."""

    def whole(
        self,
        choices: list[dict[str, Any]],
        used: dict[str, Any],
        prompt_logprobs: list[Any] | None,
        prompt_token_ids: list[int] | None,
    ) -> dict[str, Any]:
        prompt = {"prompt_logprobs": prompt_logprobs, "prompt_token_ids": prompt_token_ids, "prompt_text": None}
        return {**self._head("chat.completion"), "choices": choices, **self._tail(used), **prompt, **_TRANSFERS}

    def choice(self, delivery: Delivery, token_ids: bool) -> dict[str, Any]:
        sequence = delivery.sequence
        nothing = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
        return {
            "index": sequence.index,
            "message": {"role": "assistant", "content": delivery.text, **nothing},
            "logprobs": None,
            "finish_reason": delivery.finish,
            "stop_reason": sequence.stop_reason,
            "token_ids": delivery.tokens if token_ids else None,
            "routed_experts": None,
        }

    def role_chunk(self, index: int) -> dict[str, Any]:
        """The chunk before the first token of a choice: it names the role and has no content."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        prompt = {"prompt_token_ids": None, "prompt_text": None}
        return {**self._head("chat.completion.chunk"), "choices": [choice], **prompt}

    def chunk(self, delivery: Delivery, token_ids: bool) -> dict[str, Any]:
        sequence = delivery.sequence
        choice: dict[str, Any] = {
            "index": sequence.index,
            "delta": {"content": delivery.text},
            "logprobs": None,
            "finish_reason": delivery.finish,
        }
        if delivery.finish:
            choice["stop_reason"] = sequence.stop_reason
        choice["token_ids"] = delivery.tokens if token_ids else None
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def usage_chunk(self, used: dict[str, Any]) -> dict[str, Any]:
        return {
            **self._head("chat.completion.chunk"),
            "choices": [],
            "usage": used,
            "system_fingerprint": self.fingerprint,
        }
