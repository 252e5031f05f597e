"""The tokenizer and the chat template of the simulated model.

One byte of UTF-8 text is one token and its id is the byte's value, so the length of a prompt in tokens is its
length in bytes. Three ids above the bytes are special and have no text: 256 begin, 257 end, 258 padding. Nothing
is added in front of a prompt.

The chat template writes ``[role] content\\n`` for each message and, where a reply is asked for, ``[assistant] ``
at the end. The reply's tokens are exactly the bytes of its text, and the next turn writes the same text after the
same ``[assistant] ``: a growing chat therefore extends its earlier prompt plus reply token for token.
"""

from collections.abc import Iterable, Sequence

__all__ = ["END_OF_TEXT", "VOCABULARY_SIZE", "decode", "encode", "render_chat"]

BYTES = 256
END_OF_TEXT = 257
VOCABULARY_SIZE = 259


def encode(text: str) -> list[int]:
    """Token ids of a text; a lone surrogate, which UTF-8 cannot hold, becomes ``?``."""
    return list(text.encode("utf-8", "replace"))


def decode(tokens: Iterable[int]) -> str:
    """Text of token ids; special tokens have none, bytes that are no UTF-8 become U+FFFD."""
    return bytes(token for token in tokens if token < BYTES).decode("utf-8", "replace")


def render_chat(messages: Sequence[tuple[str, str]], *, ask_for_reply: bool, keep_last_open: bool = False) -> str:
    """Prompt text of a chat given as (role, content) pairs.

    ``keep_last_open`` leaves out the line end after the last message, so that the model goes on with it.
    """
    text = "".join(f"[{role}] {content}\n" for role, content in messages)
    if keep_last_open:
        text = text.removesuffix("\n")
    return text + "[assistant] " if ask_for_reply else text
