"""A JSON object of a trace to a row, with every reason to refuse it or to warn."""

import math
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.openai_log import as_trace_row
from hitcurve_simulator.traces.row import TraceRow
from hitcurve_simulator.traces.served import reply_text
from hitcurve_simulator.traces.text import Encoder, TextPieces, chat_tokens
from hitcurve_simulator.vllm import Request

__all__ = ["TIME_GOES_BACKWARDS", "RowParser", "RowRefused", "Turns"]

TIME_GOES_BACKWARDS = "time goes backwards"

Turns = Literal["cumulative", "delta"]
"""Whether the length of a chat's turn covers the whole chat so far, or only what is new in it."""

_ID_TYPES = {int, str}
_MOST_TOKENS = 100_000_000
_SECONDS = {"ms": 0.001, "s": 1.0}


class RowRefused(ValueError):
    """The row cannot be replayed; the message says why."""


@dataclass(slots=True)
class RowParser:
    """Turns objects into rows; remembers what rows have in common (pieces of text, time so far)."""

    block_size: int
    time_unit: TimeUnit
    turns: Turns = "cumulative"
    tokenizer: Encoder = field(default_factory=TextPieces)
    _latest_s: float = -math.inf
    _chats: set[object] = field(default_factory=set)
    _said: dict[str, int] = field(default_factory=dict)

    def parse(self, line: int, values: object) -> tuple[TraceRow, list[str]]:
        """The row of one line and the warnings about it. Raises RowRefused."""
        if not isinstance(values, Mapping):
            raise RowRefused("not a JSON object")
        values = as_trace_row(values)
        warnings: list[str] = []
        block_ids = _hash_ids(values)
        token_ids = None if block_ids is not None else self._token_ids(values)
        length = self._length(values, block_ids, token_ids)
        if length == 0:
            raise RowRefused("empty prompt")
        if block_ids is not None:
            self._check_ids(block_ids, length, warnings)
        elif token_ids is None:
            warnings.append("no hash_ids, counted as all-miss")
        output_tokens = _count(values, "output_length") or 0
        output_ids = self._output_ids(values, output_tokens) if token_ids is not None else ()
        length = self._whole_chat(values, length, output_tokens, bare=block_ids is None and token_ids is None)
        row = TraceRow(
            line=line,
            request=self._request(line, values, token_ids, block_ids, length, output_tokens),
            block_ids=block_ids,
            output_tokens=output_tokens or len(output_ids),
            output_token_ids=output_ids,
            arrival_s=self._arrival_s(values, warnings),
            session=_session(values),
            tenant=_tenant(values),
            from_text=token_ids is not None and _is_text(values),
        )
        return row, warnings

    def _request(
        self,
        line: int,
        values: Mapping[str, Any],
        token_ids: Sequence[int] | None,
        block_ids: Sequence[Hashable] | None,
        length: int,
        output_tokens: int,
    ) -> Request:
        full = length // self.block_size
        return Request(
            request_id=self._request_id(line, values),
            prompt_token_ids=token_ids,
            max_output_tokens=max(output_tokens, 1),
            adapter=_name(values, "lora"),
            cache_salt=_name(values, "cache_salt"),
            extra_key=_name(values, "extra_key"),
            skip_reading_prefix_cache=bool(values.get("skip_reading_prefix_cache", False)),
            block_contents=None if token_ids is not None else tuple((block_ids or ())[:full]),
            prompt_length=None if token_ids is not None else length,
        )

    def _request_id(self, line: int, values: Mapping[str, Any]) -> str:
        chat = values.get("chat_id")
        if not (_is_whole(chat) or isinstance(chat, str)) or chat in self._chats:
            return f"line {line}"
        self._chats.add(chat)
        return str(chat)

    def _token_ids(self, values: Mapping[str, Any]) -> Sequence[int] | None:
        given = values.get("token_ids", values.get("prompt"))
        if isinstance(given, str):
            return _packed(self.tokenizer.token_ids(given))
        if given is not None:
            if not isinstance(given, list) or not all(_is_whole(token) and token >= 0 for token in given):
                raise RowRefused("token ids are not a list of whole numbers")
            return _packed(given)
        if (messages := values.get("messages")) is None:
            return None
        if not isinstance(messages, list):
            raise RowRefused("messages are not a list")
        try:
            return _packed(chat_tokens(self.tokenizer, messages))
        except ValueError as error:
            raise RowRefused(str(error)) from None

    def _output_ids(self, values: Mapping[str, Any], output_tokens: int) -> tuple[int, ...]:
        """Tokens of the logged reply; none where they are not as many as the engine counted."""
        text = reply_text(values) if _is_text(values) else None
        tokens = () if text is None else tuple(self.tokenizer.token_ids(text))
        return tokens if output_tokens in (0, len(tokens)) else ()

    def _length(
        self,
        values: Mapping[str, Any],
        block_ids: Sequence[Hashable] | None,
        token_ids: Sequence[int] | None,
    ) -> int:
        if token_ids is not None:
            return len(token_ids)
        length = _count(values, "input_length")
        if length is not None:
            return length
        if block_ids is None:
            raise RowRefused("neither hash_ids nor tokens nor input_length")
        return len(block_ids) * self.block_size

    def _whole_chat(self, values: Mapping[str, Any], length: int, output_tokens: int, bare: bool) -> int:
        """Length of the prompt with all turns before, where rows give only what is new."""
        session = _session(values)
        if self.turns == "cumulative" or session is None:
            return length
        if not bare:
            raise RowRefused("turns that give only what is new cannot name their blocks or tokens")
        length += self._said.get(session, 0)
        self._said[session] = length + output_tokens
        return length

    def _check_ids(self, block_ids: Sequence[Hashable], length: int, warnings: list[str]) -> None:
        count = len(block_ids)
        if count > -(-length // self.block_size):
            raise RowRefused(f"{count} {_ids(count)} cannot fit {length} tokens")
        if count < length // self.block_size:
            warnings.append(f"{count} {_ids(count)} for {length} tokens, rest treated as unique")
        if len(set(block_ids)) < count:
            warnings.append("repeated id in one row")

    def _arrival_s(self, values: Mapping[str, Any], warnings: list[str]) -> float | None:
        stamp = values.get("timestamp")
        if stamp is None:
            return None
        if isinstance(stamp, bool) or not isinstance(stamp, int | float) or not math.isfinite(stamp):
            raise RowRefused("timestamp is not a number")
        arrival_s = stamp * _SECONDS[self.time_unit]
        if arrival_s < self._latest_s:
            warnings.append(TIME_GOES_BACKWARDS)
        self._latest_s = max(self._latest_s, arrival_s)
        return arrival_s


def _hash_ids(values: Mapping[str, Any]) -> Sequence[Hashable] | None:
    ids = values.get("hash_ids")
    if ids is None:
        return None
    if not isinstance(ids, list):
        raise RowRefused("hash_ids is not a list")
    if set(map(type, ids)) <= _ID_TYPES:
        return ids
    for position, value in enumerate(ids, 1):
        if not _is_whole(value) and not isinstance(value, str):
            raise RowRefused(f"hash id {position} is neither a whole number nor a string")
    return ids


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if not _is_whole(value) or value < 0:
        raise RowRefused(f"{name} is not a whole number of tokens")
    if value > _MOST_TOKENS:
        raise RowRefused(f"{name} is {value:,} tokens, more than any prompt holds ({_MOST_TOKENS:,})")
    return int(value)


def _name(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    if not _is_whole(value) and not isinstance(value, str):
        raise RowRefused(f"{name} is not a name")
    return str(value)


def _session(values: Mapping[str, Any]) -> str | None:
    value = values.get("session", values.get("session_id"))
    return None if value is None else str(value)


def _tenant(values: Mapping[str, Any]) -> str | None:
    value = next((values[name] for name in ("tenant", "tag", "user") if values.get(name) is not None), None)
    return None if value is None else str(value)


def _is_text(values: Mapping[str, Any]) -> bool:
    return not isinstance(values.get("token_ids", values.get("prompt")), list)


def _packed(token_ids: list[int]) -> Sequence[int]:
    """A fourth of the memory of a list, where the numbers fit."""
    try:
        return array("q", token_ids)
    except OverflowError:
        return token_ids


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ids(count: int) -> str:
    return "id" if count == 1 else "ids"
