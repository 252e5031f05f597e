"""Conversations in the shapes of ShareGPT: one request for each question, with all that was said before."""

from collections.abc import Mapping
from typing import Any

from hitcurve_simulator.traces.row import LineFinding, TraceRow
from hitcurve_simulator.traces.text import Encoder, chat_tokens
from hitcurve_simulator.vllm import Request

__all__ = ["rows_of_conversations"]

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "system": "system",
}


def rows_of_conversations(
    objects: list[tuple[int, object]], tokenizer: Encoder
) -> tuple[list[TraceRow], list[LineFinding]]:
    """Requests of all conversations, one conversation after the other, and those without a question.

    Entries that are no message are passed over, as is anything the assistant says before the first question.
    """
    rows: list[TraceRow] = []
    skipped: list[LineFinding] = []
    for line, item in objects:
        found = _rows_of(line, _name(line, item), _messages(item), tokenizer)
        rows.extend(found)
        if not found:
            skipped.append(LineFinding(line, f"conversation {_name(line, item)} holds no question"))
    return rows, skipped


def _rows_of(line: int, session: str, messages: list[dict[str, str]], tokenizer: Encoder) -> list[TraceRow]:
    rows: list[TraceRow] = []
    for index, message in enumerate(messages):
        if message["role"] != "user":
            continue
        replied = index + 1 < len(messages) and messages[index + 1]["role"] == "assistant"
        output = tuple(tokenizer.token_ids(messages[index + 1]["content"])) if replied else ()
        request = Request(
            request_id=f"{session}, question {len(rows) + 1}, line {line}",
            prompt_token_ids=chat_tokens(tokenizer, messages[: index + 1]),
            max_output_tokens=max(len(output), 1),
        )
        rows.append(
            TraceRow(
                line, request, output_tokens=len(output), output_token_ids=output, session=session, from_text=True
            )
        )
    return rows


def _messages(item: object) -> list[dict[str, str]]:
    entries: Any = item.get("conversations", item.get("conversation")) if isinstance(item, Mapping) else None
    messages: list[dict[str, str]] = []
    asked = False
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, Mapping):
            continue
        role = _ROLES.get(str(entry.get("from", entry.get("role"))))
        content = entry.get("value", entry.get("content"))
        if role is None or not isinstance(content, str) or (role == "assistant" and not asked):
            continue
        asked = asked or role == "user"
        messages.append({"role": role, "content": content})
    return messages


def _name(line: int, item: object) -> str:
    name = item.get("id") if isinstance(item, Mapping) else None
    return f"at {line}" if name is None else str(name)
