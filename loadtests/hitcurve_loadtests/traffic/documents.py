"""Retrieval: an instruction, some documents drawn by popularity, and a question nobody else asks."""

from dataclasses import dataclass, field
from typing import Literal

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Length, Popularity

__all__ = ["Documents", "DocumentsSizes"]


@dataclass(frozen=True, slots=True)
class DocumentsSizes:
    """Sizes in tokens."""

    prefix_tokens: int = 256
    documents: int = 50
    document_tokens: int = 320
    documents_per_request: int = 2
    zipf: float = 1.0
    order: Literal["fixed", "shuffled"] = "fixed"
    """``fixed`` puts the more popular document first, ``shuffled`` any order, as a retriever's scores do."""
    suffix_tokens: Length = field(default=Length(48, 48))
    output_tokens: Length = field(default=Length(8, 8))


class Documents:
    """Every request: instruction, its documents without repetition, question."""

    def __init__(self, sizes: DocumentsSizes, texts: Texts) -> None:
        self._sizes = sizes
        self._texts = texts
        self._random = texts.random("documents")
        self._popularity = Popularity(sizes.documents, sizes.zipf)
        self._instruction = texts.shared(sizes.prefix_tokens, "instruction")
        self._contents: dict[int, str] = {}
        self._sent = 0

    def next(self) -> Prompt:
        sizes = self._sizes
        found = self._retrieve()
        context = "".join(map(self._content, found))
        question = self._texts.fresh(sizes.suffix_tokens.draw(self._random), "question", self._sent)
        self._sent += 1
        messages = (Message("system", self._instruction + context), Message("user", question))
        return Prompt(f"document-{found[0]}", messages, sizes.output_tokens.draw(self._random))

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""

    def _retrieve(self) -> list[int]:
        found: dict[int, None] = {}
        while len(found) < min(self._sizes.documents_per_request, self._sizes.documents):
            found[self._popularity.draw(self._random)] = None
        # Drawn one by one by popularity, the order is already that of a retriever whose scores vary.
        return sorted(found) if self._sizes.order == "fixed" else list(found)

    def _content(self, document: int) -> str:
        if document not in self._contents:
            self._contents[document] = self._texts.shared(self._sizes.document_tokens, "document", document)
        return self._contents[document]
