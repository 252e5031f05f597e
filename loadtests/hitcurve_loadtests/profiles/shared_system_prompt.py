"""Groups of requests, each with a system prompt of its own in front of a question nobody else asks."""

import itertools
import random

from hitcurve_loadtests.profiles.profile import ProfileSettings
from hitcurve_loadtests.prompts import Message, Prompt, make_text

__all__ = ["SharedSystemPrompt"]


class SharedSystemPrompt:
    """Every request: the prefix of a randomly chosen group, then a suffix that is never repeated."""

    def __init__(self, settings: ProfileSettings) -> None:
        self._settings = settings
        self._random = random.Random(f"shared-system-prompt {settings.seed}")
        ranks = range(1, settings.groups + 1)
        self._weights = list(itertools.accumulate(rank**-settings.zipf for rank in ranks))
        self._prefixes: dict[int, str] = {}
        self._sent = 0

    def next(self) -> Prompt:
        settings = self._settings
        group = self._random.choices(range(settings.groups), cum_weights=self._weights)[0]
        if group not in self._prefixes:
            self._prefixes[group] = make_text(settings.prefix_tokens, settings.seed, "system", group)
        suffix = make_text(settings.suffix_tokens, settings.seed, "question", self._sent)
        self._sent += 1
        messages = (Message("system", self._prefixes[group]), Message("user", suffix))
        return Prompt(f"group-{group}", messages, settings.output_tokens)

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""
