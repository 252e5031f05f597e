"""Requests that share nothing, not even their first block: every lookup misses and every block is new."""

from dataclasses import dataclass, field

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Length

__all__ = ["Unique", "UniqueSizes"]


@dataclass(frozen=True, slots=True)
class UniqueSizes:
    """Sizes in tokens; prefix and suffix together are the prompt."""

    prefix_tokens: int = 512
    suffix_tokens: Length = field(default=Length(64, 64))
    output_tokens: Length = field(default=Length(16, 16))


class Unique:
    """Every request: prefix and suffix sizes together, all of it never sent before."""

    def __init__(self, sizes: UniqueSizes, texts: Texts) -> None:
        self._sizes = sizes
        self._texts = texts
        self._random = texts.random("unique")
        self._sent = 0

    def next(self) -> Prompt:
        sizes = self._sizes
        length = sizes.prefix_tokens + sizes.suffix_tokens.draw(self._random)
        text = self._texts.fresh(length, "unique", self._sent)
        group = f"unique-{self._sent}"
        self._sent += 1
        return Prompt(group, (Message("user", text),), sizes.output_tokens.draw(self._random))

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""
