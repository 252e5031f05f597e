"""A trace as traffic: text that shares exactly what the trace shares."""

from collections.abc import Iterator, Sequence

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.replay.rows import Trace, TraceRow
from hitcurve_loadtests.texts import Texts

__all__ = ["TraceReplay", "due_times"]


class TraceReplay:
    """The rows of a trace in order, as prompts. Traffic like any other, which ends with the last row.

    A block's text depends on the seed and its id alone and differs from any other block's within its first 12
    tokens. So two prompts have equal text exactly as far as their ids are equal, and an engine whose blocks are
    at most as large as the trace's and divide it finds exactly the sharing of the trace. Recorded text is sent as
    it is.
    """

    def __init__(
        self,
        trace: Trace,
        texts: Texts,
        *,
        max_prompt_tokens: int | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        self._trace = trace
        self._rows = iter(trace.rows)
        self._texts = texts
        self._max_prompt_tokens = max_prompt_tokens
        self._max_output_tokens = max_output_tokens
        self._sent = 0

    def next(self) -> Prompt | None:
        row = next(self._rows, None)
        if row is None:
            return None
        self._sent += 1
        output_tokens = min(row.output_tokens, self._max_output_tokens or row.output_tokens)
        messages = row.messages or (Message("user", self._text(row)),)
        group = f"block-{row.scope and row.scope + ' '}{row.hash_ids[0]}" if row.hash_ids else "no-block"
        return Prompt(group, messages, output_tokens, cache_salt=row.cache_salt)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies: the trace already says what comes next."""

    def _text(self, row: TraceRow) -> str:
        size, left = self._trace.block_size, min(row.input_tokens, self._max_prompt_tokens or row.input_tokens)
        scope = (row.scope,) if row.scope else ()
        pieces = []
        for block in row.hash_ids:
            if left <= 0:
                break
            pieces.append(self._texts.shared(min(size, left), "block", *scope, block))
            left -= size
        # Traces that list full blocks only leave a tail, which nobody shares.
        return "".join(pieces) + self._texts.fresh(max(left, 0), "tail", self._sent)


def due_times(rows: Sequence[TraceRow], speed: float) -> Iterator[float] | None:
    """When each row is sent, seconds after the start; ``None`` where the trace has no times."""
    times = [row.at_s for row in rows if row.at_s is not None]
    if len(times) < len(rows):
        return None
    return iter([(at_s - times[0]) / speed for at_s in times])
