"""Options of a load as the words of a command line."""

from collections.abc import Mapping
from typing import Any

__all__ = ["load_words"]


def load_words(host: str, settings: Mapping[str, Any]) -> list[str]:
    """Words for ``hitcurve load``: ``prefix_tokens: 512`` becomes ``--prefix-tokens 512``; lists repeat."""
    words: list[str] = []
    for key, value in settings.items():
        option = f"--{key.replace('_', '-')}"
        if key == "profile":
            words.insert(0, str(value))
        elif value is None:
            continue
        elif isinstance(value, bool):
            words.append(option if value else f"--no-{option[2:]}")
        elif isinstance(value, list | tuple):
            words += [word for item in value for word in (option, str(item))]
        else:
            words += [option, str(value)]
    return [*words, "--host", host]
