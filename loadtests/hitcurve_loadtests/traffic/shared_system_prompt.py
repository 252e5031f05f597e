"""Groups of requests, each with a system prompt of its own in front of a question nobody else asks."""

from dataclasses import dataclass, field

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Length, Popularity

__all__ = ["SharedSystemPrompt", "SharedSystemPromptSizes"]


@dataclass(frozen=True, slots=True)
class SharedSystemPromptSizes:
    """Sizes in tokens. ``snippets`` fixed passages of ``snippet_tokens`` may follow the prefix, one a request."""

    groups: int = 8
    prefix_tokens: int = 512
    suffix_tokens: Length = field(default=Length(64, 64))
    output_tokens: Length = field(default=Length(16, 16))
    zipf: float = 1.0
    snippets: int = 0
    snippet_tokens: int = 0


class SharedSystemPrompt:
    """Every request: the prefix of a randomly chosen group, perhaps a snippet, a suffix that is never repeated."""

    def __init__(self, sizes: SharedSystemPromptSizes, texts: Texts) -> None:
        self._sizes = sizes
        self._texts = texts
        self._random = texts.random("shared-system-prompt")
        self._popularity = Popularity(sizes.groups, sizes.zipf)
        self._prefixes: dict[tuple[int, int | None], str] = {}
        self._sent = 0

    def next(self) -> Prompt:
        sizes = self._sizes
        group = self._popularity.draw(self._random)
        snippet = self._random.randrange(sizes.snippets) if sizes.snippets else None
        suffix = self._texts.fresh(sizes.suffix_tokens.draw(self._random), "question", self._sent)
        self._sent += 1
        messages = (Message("system", self._prefix(group, snippet)), Message("user", suffix))
        return Prompt(f"group-{group}", messages, sizes.output_tokens.draw(self._random))

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""

    def _prefix(self, group: int, snippet: int | None) -> str:
        key = (group, snippet)
        if key not in self._prefixes:
            text = self._texts.shared(self._sizes.prefix_tokens, "system", group)
            if snippet is not None:
                text += self._texts.shared(self._sizes.snippet_tokens, "snippet", snippet)
            self._prefixes[key] = text
        return self._prefixes[key]
