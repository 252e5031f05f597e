"""A code copilot: the whole file goes along with every request, and somebody edits it in between."""

from dataclasses import dataclass, field
from typing import Literal

from hitcurve_loadtests.prompts import Message, Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Length

__all__ = ["EditedFiles", "EditedFilesSizes"]


@dataclass(frozen=True, slots=True)
class EditedFilesSizes:
    """Sizes in tokens. A file has ``passages`` of ``passage_tokens``; an edit rewrites one of them."""

    prefix_tokens: int = 128
    files: int = 8
    passages: int = 20
    passage_tokens: int = 48
    edit: Literal["head", "middle", "end"] = "end"
    suffix_tokens: Length = field(default=Length(16, 16))
    output_tokens: Length = field(default=Length(8, 8))


class EditedFiles:
    """Every request: instruction, a file with one passage rewritten since it was sent last, the place to complete.

    What comes before the edit is shared with the file's last request, nothing after it.
    """

    def __init__(self, sizes: EditedFilesSizes, texts: Texts) -> None:
        self._sizes = sizes
        self._texts = texts
        self._random = texts.random("edited-files")
        self._instruction = texts.shared(sizes.prefix_tokens, "instruction")
        self._files: dict[int, list[str]] = {}
        self._sent = 0

    def next(self) -> Prompt:
        sizes = self._sizes
        file = self._random.randrange(sizes.files)
        content = self._edited(file)
        cursor = self._texts.fresh(sizes.suffix_tokens.draw(self._random), "cursor", self._sent)
        self._sent += 1
        messages = (Message("system", self._instruction + content), Message("user", cursor))
        return Prompt(f"file-{file}", messages, sizes.output_tokens.draw(self._random))

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        """Nothing depends on replies."""

    def _edited(self, file: int) -> str:
        sizes, texts = self._sizes, self._texts
        if file not in self._files:
            self._files[file] = [
                texts.fresh(sizes.passage_tokens, "passage", file, number) for number in range(sizes.passages)
            ]
        passages = self._files[file]
        place = {"head": 0, "middle": sizes.passages // 2, "end": sizes.passages - 1}[sizes.edit]
        passages[place] = texts.fresh(sizes.passage_tokens, "edit", file, self._sent)
        return "".join(passages)
