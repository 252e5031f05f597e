"""Tokenizers by the word a user gives."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError
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


def tokenizer_by_name(name: str) -> Tokenizer:
    """``pieces``, ``bytes``, or the path of a ``tokenizer.json`` or the folder of a model. Raises UsageError."""
    if name == "pieces":
        return TextPieces()
    if name == "bytes":
        return Utf8Bytes()
    path = Path(name)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"--tokenizer is '{name}'; give pieces, bytes, or the path of a tokenizer.json.")
    return _ModelTokenizer(file)
