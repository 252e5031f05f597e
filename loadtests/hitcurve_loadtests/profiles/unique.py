"""Requests that share nothing, not even their first block: every lookup misses and every block is new."""

from hitcurve_loadtests.profiles.profile import ProfileSettings
from hitcurve_loadtests.prompts import Message, Prompt, make_text

__all__ = ["Unique"]


class Unique:
    """Every request: prefix and suffix sizes together, all of it never sent before."""

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings
        self._sent = 0

    def next(self) -> Prompt:
        settings = self._settings
        length = settings.prefix_tokens + settings.suffix_tokens
        text = make_text(length, settings.seed, "unique", self._sent)
        group = f"unique-{self._sent}"
        self._sent += 1
        return Prompt(group, (Message("user", text),), settings.output_tokens)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""
