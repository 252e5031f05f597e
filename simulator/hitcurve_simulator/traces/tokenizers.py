"""Tokenizers by the word a user gives."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
from hitcurve_simulator.traces.chat_template import ChatTemplate, chat_template_of
from hitcurve_simulator.traces.text import TextPieces, Tokenizer, Utf8Bytes

__all__ = ["tokenizer_by_name"]


class _ModelTokenizer:
    """A model's own tokenizer, from its ``tokenizer.json``; special tokens are not added."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer as Loaded
        except ModuleNotFoundError:
            raise UsageError(
                "a tokenizer.json needs the package 'tokenizers'; install it with: pip install tokenizers"
            ) from None
        try:
            self._loaded: Any = Loaded.from_file(str(path))
        except Exception as error:  # The package raises bare Exception.
            raise UsageError(f"{path} is no tokenizer.json: {error}.") from None

    def token_ids(self, text: str) -> list[int]:
        return list(self._loaded.encode(text, add_special_tokens=False).ids)

    def text(self, token_ids: Sequence[int]) -> str:
        return str(self._loaded.decode(list(token_ids), skip_special_tokens=False))


class _ChatModelTokenizer(_ModelTokenizer):
    """The same with the model's chat template."""

    def __init__(self, path: Path, template: ChatTemplate) -> None:
        super().__init__(path)
        self._template = template

    def chat_token_ids(self, messages: Sequence[object]) -> list[int]:
        return self.token_ids(self._template.render(messages))


def tokenizer_by_name(name: str) -> Tokenizer:
    """``pieces``, ``bytes``, the path of a ``tokenizer.json`` or the folder of a model, or a model's name.

    A model is looked for by its name in the cache of Hugging Face's hub; nothing is fetched. A folder brings its
    chat template as well. Raises UsageError.
    """
    if name == "pieces":
        return TextPieces()
    if name == "bytes":
        return Utf8Bytes()
    path = Path(name)
    if not path.exists() and (cached := _cached(name)) is not None:
        path = cached
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"--tokenizer is '{name}'; give pieces, bytes, the path of a tokenizer.json or of a model's folder, "
            "or the name of a model in the cache of Hugging Face's hub."
        )
    template = chat_template_of(path) if path.is_dir() else None
    return _ModelTokenizer(file) if template is None else _ChatModelTokenizer(file, template)


def _cached(name: str) -> Path | None:
    """The folder of a model that was fetched before, its newest version."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    files = (hub / f"models--{name.replace('/', '--')}").glob("snapshots/*/tokenizer.json")
    return max((file.parent for file in files), key=lambda folder: folder.stat().st_mtime, default=None)
