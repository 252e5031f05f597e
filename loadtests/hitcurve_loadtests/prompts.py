"""Prompts: what is sent, and the text they are made of.

Text is made from a seed and names alone, so a run can be repeated exactly. Here it is ASCII, and ``n`` tokens are
``n`` bytes, as byte-level tokenizers have it (the simulated engine, the tiny test model);
``hitcurve_loadtests.texts`` has the text for other tokenizers.
"""

import hashlib
from dataclasses import dataclass

__all__ = ["IDENTITY_BYTES", "MOST_TOKENS", "Message", "Prompt", "common_words", "make_text"]

IDENTITY_BYTES = 12
"""A text begins with this many letters that no other text has, so that not even a block of 16 tokens is shared."""
MOST_TOKENS = 100_000_000
"""More than any engine takes, and texts of so many tokens can still be made."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567"
_WORD_LIST = (
    "after again air all along also answer area asks away back because been below best between black blue "
    "boat body both bring build call came carry change city clear close cold come could country cover cross "
    "cut day deep did different door down draw drive each early earth east easy end even ever every example "
    "eye face fact fall family far farm fast father feel few field figure find fire first fish five fly "
    "follow food form four free front full game gave give gold good great green ground group grow half hand "
    "hard head hear heat help here high hold home horse hot hour house hundred idea inch island just keep "
    "kind king knew know land large last late laugh learn leave left less letter life light"
)
_WORD_OF_BYTE = _WORD_LIST.split() * 2
_TO_LETTERS = bytes(_LETTERS[byte % 32] for byte in range(256))


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to send. ``group`` names the requests that share a prefix with it."""

    group: str
    messages: tuple[Message, ...]
    output_tokens: int
    session: int | None = None
    """Number of the chat session that waits for the reply, where there is one."""
    model_rank: int | None = None
    """Which of the models or adapters named is asked; ``None`` leaves it to the run."""
    cache_salt: str | None = None
    """The tenant's salt; ``None`` leaves it to the run."""
    at_s: float | None = None
    """When it is to be sent, seconds after the start, where a trace says so."""

    @property
    def text(self) -> str:
        """All messages as one text, for engines asked to complete rather than to chat."""
        return "".join(message.text for message in self.messages)


def common_words() -> tuple[str, ...]:
    """Short English words that most tokenizers know."""
    return tuple(_WORD_LIST.split())


def make_text(length: int, *name: object) -> str:
    """``length`` bytes of ASCII words that depend on ``name`` alone (seed, what it is for, which one).

    The first ``IDENTITY_BYTES`` letters are a digest of the name: texts of different names differ there.
    Texts of one name and different lengths are prefixes of each other.
    """
    key = "\x1f".join(map(str, name)).encode()
    # Words are at least three letters, so length / 4 of them and their spaces always suffice.
    digest = hashlib.shake_128(key).digest(IDENTITY_BYTES + length // 4 + 1)
    identity = digest[:IDENTITY_BYTES].translate(_TO_LETTERS).decode()
    return f"{identity} {' '.join([_WORD_OF_BYTE[byte] for byte in digest[IDENTITY_BYTES:]])}"[:length]
