"""A model's chat template: messages to the text that the model is given."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hitcurve.errors import UsageError

__all__ = ["ChatTemplate", "chat_template_of"]

_FILE = "chat_template.jinja"
_CONFIG = "tokenizer_config.json"
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A Jinja template and the special tokens it may name, as transformers renders it (5.0)."""

    source: str
    special_tokens: Mapping[str, str]

    def render(self, messages: Sequence[object]) -> str:
        """The text up to where the reply begins. A first message of the role ``tools`` holds the tools as JSON.

        Raises ValueError for messages that the template refuses, UsageError where Jinja2 is missing.
        """
        try:
            from jinja2 import TemplateError
        except ModuleNotFoundError:
            raise UsageError(
                "the model's chat template needs the package 'Jinja2'; install it with: pip install Jinja2"
            ) from None
        tools = None
        first = messages[0] if messages else None
        if isinstance(first, Mapping) and first.get("role") == "tools":
            tools, messages = json.loads(str(first["content"])), messages[1:]
        try:
            return str(
                _compiled(self.source).render(
                    messages=list(messages), tools=tools, add_generation_prompt=True, **self.special_tokens
                )
            )
        except (TemplateError, TypeError, AttributeError) as error:
            raise ValueError(f"the chat template refuses the messages: {error}") from None


def chat_template_of(folder: Path) -> ChatTemplate | None:
    """The template of a model's folder; None where it has none."""
    config = _config(folder / _CONFIG)
    source = config.get("chat_template")
    if isinstance(source, list):
        named = {one.get("name"): one.get("template") for one in source if isinstance(one, Mapping)}
        source = named.get("default")
    if (folder / _FILE).is_file():
        source = (folder / _FILE).read_text(encoding="utf-8")
    if not isinstance(source, str):
        return None
    return ChatTemplate(
        source, {name: text for name in _SPECIAL if (text := _token(config.get(name))) is not None}
    )


def _config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, Mapping) else {}


def _token(value: object) -> str | None:
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else None


def _compiled(source: str) -> Any:
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(source)
