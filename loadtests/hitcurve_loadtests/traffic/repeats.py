"""The same prompts again and again, to the last token: the most a prefix cache can be asked to do."""

from dataclasses import dataclass

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Popularity

__all__ = ["Repeats", "RepeatsSizes"]


@dataclass(frozen=True, slots=True)
class RepeatsSizes:
    """Sizes in tokens."""

    prompts: int = 8
    prompt_tokens: int = 500
    output_tokens: int = 16
    zipf: float = 0.0


class Repeats:
    """Every request: one of a few prompts that never change."""

    def __init__(self, sizes: RepeatsSizes, texts: Texts) -> None:
        self._sizes = sizes
        self._random = texts.random("repeats")
        self._popularity = Popularity(sizes.prompts, sizes.zipf)
        self._prompts = [texts.shared(sizes.prompt_tokens, "prompt", number) for number in range(sizes.prompts)]

    def next(self) -> Prompt:
        number = self._popularity.draw(self._random)
        return Prompt(f"prompt-{number}", (Message("user", self._prompts[number]),), self._sizes.output_tokens)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""
