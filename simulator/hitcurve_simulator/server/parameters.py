"""What a completion or chat request asks for, beside its prompt: read and checked as vLLM 0.32 does."""

from dataclasses import dataclass

from hitcurve_simulator.server.api_error import bad_body, bad_parameter
from hitcurve_simulator.server.request_body import RequestBody

__all__ = ["Parameters", "output_tokens", "read_parameters"]

# vLLM's own limit, VLLM_MAX_N_SEQUENCES.
_MOST_SAMPLES = 16_384


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters that both APIs share; those that change nothing here (top_p, user, ...) are let through."""

    n: int
    max_tokens: int | None
    min_tokens: int
    ignore_end: bool
    seed: int | None
    stop: tuple[str, ...]
    keep_stop: bool
    cache_salt: str | None
    prompt_logprobs: int | None
    skip_reading_prefix_cache: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    echo: bool


def read_parameters(body: RequestBody, *, default_max_tokens: int | None) -> Parameters:
    """Raises ApiError (400) for a wrong type, an impossible value or combination."""
    stream = body.boolean("stream")
    usage = body.mapping("stream_options")
    if usage is not None and not stream:
        raise bad_parameter("stream_options", "stream_options need stream=True. (parameter=stream_options)")
    logprobs = _prompt_logprobs(body, stream)
    echo = body.boolean("echo")
    asked = body.integer("max_completion_tokens")
    return Parameters(
        n=_samples(body),
        max_tokens=asked if asked is not None else _or(body.integer("max_tokens"), default_max_tokens),
        min_tokens=_min_tokens(body),
        ignore_end=body.boolean("ignore_eos"),
        seed=body.integer("seed"),
        stop=_stop(body),
        keep_stop=body.boolean("include_stop_str_in_output"),
        cache_salt=_cache_salt(body),
        prompt_logprobs=logprobs,
        skip_reading_prefix_cache=logprobs is not None or (echo and body.values.get("logprobs") is not None),
        stream=stream,
        include_usage=usage is not None and usage.boolean("include_usage"),
        continuous_usage=usage is not None and usage.boolean("continuous_usage_stats"),
        return_token_ids=body.boolean("return_token_ids"),
        echo=echo,
    )


def output_tokens(parameters: Parameters, prompt_tokens: int, max_model_len: int) -> int:
    """Tokens that may be generated after this prompt, at least 1. Raises ApiError (400) where none fit."""
    if prompt_tokens > max_model_len:
        raise bad_parameter(
            "input_tokens",
            f"This model's maximum context length is {max_model_len} tokens and the prompt has {prompt_tokens}; "
            f"shorten the prompt. (parameter=input_tokens, value={prompt_tokens})",
        )
    asked = parameters.max_tokens
    if asked is not None and asked > max_model_len:
        raise bad_parameter(
            "max_tokens",
            f"max_tokens={asked} exceeds max_model_len={max_model_len}. (parameter=max_tokens, value={asked})",
        )
    allowed = min(_or(asked, max_model_len) or 0, max_model_len - prompt_tokens)
    if allowed < 1:
        raise bad_parameter(
            "max_tokens", f"max_tokens must be at least 1, got {allowed}. (parameter=max_tokens, value={allowed})"
        )
    if parameters.min_tokens > allowed:
        raise bad_parameter(
            "min_tokens", f"min_tokens must not exceed max_tokens={allowed}, got {parameters.min_tokens}."
        )
    return allowed


def _or(value: int | None, default: int | None) -> int | None:
    return default if value is None else value


def _samples(body: RequestBody) -> int:
    n = _or(body.integer("n"), 1) or 0
    if n < 1:
        raise bad_parameter(None, f"n must be at least 1, got {n}.")
    if n > _MOST_SAMPLES:
        raise bad_parameter(None, f"n must be at most {_MOST_SAMPLES}, got {n}.")
    temperature = body.number("temperature")
    if temperature is not None and temperature < 0:
        raise bad_parameter("temperature", f"temperature must not be negative, got {temperature}.")
    if temperature == 0 and n > 1:
        raise bad_parameter(None, f"n must be 1 with greedy sampling (temperature 0), got {n}.")
    return n


def _min_tokens(body: RequestBody) -> int:
    least = body.integer("min_tokens") or 0
    if least < 0:
        raise bad_parameter("min_tokens", f"min_tokens must not be negative, got {least}.")
    return least


def _prompt_logprobs(body: RequestBody, stream: bool) -> int | None:
    count = body.integer("prompt_logprobs")
    if count is not None and stream:
        raise bad_parameter("prompt_logprobs", "prompt_logprobs cannot be had with stream=True.")
    return count


def _cache_salt(body: RequestBody) -> str | None:
    salt = body.values.get("cache_salt")
    if salt is None:
        return None
    if not isinstance(salt, str) or not salt:
        raise bad_parameter("cache_salt", "cache_salt must be a string that is not empty. (parameter=cache_salt)")
    return salt


def _stop(body: RequestBody) -> tuple[str, ...]:
    stop = body.values.get("stop")
    if stop is None:
        return ()
    words = [stop] if isinstance(stop, str) else stop
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        raise bad_body("body.stop", "stop must be a string, or a list of strings, none of them empty.")
    return tuple(words)
