"""From a prompt to samples in the engine, and back to what an answer is written from."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from collections.abc import Sequence as Tokens
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hitcurve.hashing import Image
from hitcurve_simulator.server import tokenizer
from hitcurve_simulator.server.adapters import Adapter
from hitcurve_simulator.server.api_error import ApiError, bad_parameter
from hitcurve_simulator.server.engine import Engine, EngineFailed
from hitcurve_simulator.server.parameters import Parameters, output_tokens
from hitcurve_simulator.server.replies import ReplyWriter
from hitcurve_simulator.server.sequence import Listener, Sequence
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.vllm import Request, RequestRejected

__all__ = ["Delivery", "Generation", "Generator"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """News of one sample, as of when it was handed out: the sample itself may be further by now."""

    sequence: Sequence
    text: str
    """Text and tokens since the last delivery."""
    tokens: list[int]
    delivered: int
    """Tokens so far, these included."""
    finish: str | None
    """Why it ended; None while it goes on."""


class Generation:
    """The samples of one API request."""

    def __init__(self, samples: list[Sequence], news: "asyncio.Queue[Delivery]") -> None:
        self.samples = samples
        self.ended = False
        """The delivery at hand is the last one."""
        self._news = news

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Every delivery until all samples have ended. Raises ApiError (500) where the engine failed."""
        open_samples = len(self.samples)
        while open_samples:
            delivery = await self._news.get()
            if delivery.finish == "error":
                raise ApiError(500, "InternalServerError", "The engine failed.")
            open_samples -= delivery.finish is not None
            self.ended = not open_samples
            yield delivery


class Generator:
    """Writes replies ahead of time and lets the engine take the time and the blocks for them."""

    def __init__(self, engine: Engine, settings: EngineSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._writer = ReplyWriter(settings.seed, settings.reply_tokens)
        self._serial = itertools.count(1)

    @asynccontextmanager
    async def start(
        self,
        prompts: Tokens[list[int]],
        parameters: Parameters,
        adapter: Adapter | None,
        request_id: str,
        images: tuple[Image, ...] = (),
    ) -> AsyncIterator[Generation]:
        """Run ``n`` samples of each prompt; what has not ended when the block is left is aborted.

        Raises ApiError (400) for a prompt that does not fit; nothing runs then.
        """
        news: asyncio.Queue[Delivery] = asyncio.Queue()
        limits = [output_tokens(parameters, len(prompt), self._settings.max_model_len) for prompt in prompts]
        samples: list[Sequence] = []
        for prompt, limit in zip(prompts, limits, strict=True):
            family: list[Sequence] = []
            for sample in range(parameters.n):
                sequence = self._sequence(prompt, limit, parameters, adapter, request_id, sample, news, images)
                sequence.index, sequence.family = len(samples), family
                family.append(sequence)
                samples.append(sequence)
        try:
            for sequence in samples:
                self._engine.submit(sequence)
            yield Generation(samples, news)
        except EngineFailed:
            raise ApiError(500, "InternalServerError", "The engine failed.") from None
        except RequestRejected as rejection:
            raise bad_parameter(None, f"The request can never run: {rejection}.") from None
        finally:
            for sequence in samples:
                self._engine.abort(sequence)

    def _sequence(
        self,
        prompt: list[int],
        limit: int,
        parameters: Parameters,
        adapter: Adapter | None,
        request_id: str,
        sample: int,
        news: "asyncio.Queue[Delivery]",
        images: tuple[Image, ...],
    ) -> Sequence:
        reply = self._writer.reply(
            prompt,
            max_tokens=limit,
            min_tokens=parameters.min_tokens,
            ignore_end=parameters.ignore_end,
            request_seed=parameters.seed,
            adapter=f"{adapter.name}\0{adapter.path}" if adapter else None,
            sample=sample,
        )
        ending = _ending(reply, parameters)
        return Sequence(
            request=Request(
                request_id=f"{request_id}-{next(self._serial)}",
                prompt_token_ids=prompt,
                max_output_tokens=len(ending.reply),
                adapter=adapter.name if adapter else None,
                adapter_path=adapter.path if adapter else "",
                cache_salt=parameters.cache_salt,
                images=images,
                skip_reading_prefix_cache=parameters.skip_reading_prefix_cache,
            ),
            reply=ending.reply,
            text_tokens=ending.text_tokens,
            own_reason=ending.reason,
            stop_reason=ending.stop,
            listener=_stream(news) if parameters.stream else _whole(news),
            arrived_s=self._engine.clock.monotonic(),
            max_tokens=limit,
        )


@dataclass(frozen=True, slots=True)
class _Ending:
    reply: list[int]
    text_tokens: int
    reason: str
    stop: str | None = None


def _ending(reply: list[int], parameters: Parameters) -> _Ending:
    """Where the reply ends: at the first stop string, by itself, or for its length."""
    text = tokenizer.decode(reply)
    found = [(at + len(word), word) for word in parameters.stop if (at := text.find(word)) >= 0]
    if found:
        end, word = min(found)
        return _Ending(reply[:end], end if parameters.keep_stop else end - len(word), "stop", word)
    if reply[-1] == tokenizer.END_OF_TEXT:
        return _Ending(reply, len(reply) - 1, "stop")
    return _Ending(reply, len(reply), "length")


def _stream(news: "asyncio.Queue[Delivery]") -> Listener:
    def listen(sequence: Sequence, new_tokens: int) -> None:
        end = sequence.delivered
        shown = sequence.reply[end - new_tokens : min(end, sequence.text_tokens)]
        tokens = sequence.reply[end - new_tokens : end]
        news.put_nowait(Delivery(sequence, tokenizer.decode(shown), tokens, end, sequence.finished))

    return listen


def _whole(news: "asyncio.Queue[Delivery]") -> Listener:
    def listen(sequence: Sequence, new_tokens: int) -> None:
        if sequence.finished is not None:
            end = sequence.delivered
            tokens, shown = sequence.reply[:end], sequence.reply[: min(end, sequence.text_tokens)]
            news.put_nowait(Delivery(sequence, tokenizer.decode(shown), tokens, end, sequence.finished))

    return listen
