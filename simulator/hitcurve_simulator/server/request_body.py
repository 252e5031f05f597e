"""Reading a JSON request body, with the errors a client expects for a field of the wrong type."""

import json
from typing import Any

from hitcurve_simulator.server.api_error import ApiError, bad_body

__all__ = ["RequestBody", "parse_boolean"]

_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


class RequestBody:
    """The object of a request body. Absent and ``null`` are the same; unknown fields are let through."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    @classmethod
    def parse(cls, text: bytes, content_type: str) -> "RequestBody":
        """Raises ApiError (400) where the body is no JSON object."""
        if content_type != "application/json":
            raise bad_body(None, "the content type must be application/json.")
        if not text:
            raise bad_body("body", "the body is missing.")
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            position = getattr(error, "pos", 0)
            raise bad_body(f"body.{position}", f"the body is not JSON: {error}.") from None
        if not isinstance(values, dict):
            raise bad_body("body", f"the body must be an object, not {_kind(values)}.")
        return cls(values)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def required_text(self, name: str) -> str:
        """A string that has to be there; it may be empty."""
        value = self.text(name)
        if value is None:
            raise bad_body(f"body.{name}", f"{name} is missing.")
        return value

    def integer(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and value.strip().lstrip("+-").isdecimal():
            return int(value)
        raise self._wrong(name, "an integer", value)

    def number(self, name: str) -> float | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            try:
                return float(value)
            except ValueError:
                pass
        raise self._wrong(name, "a number", value)

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        parsed = parse_boolean(value)
        if parsed is None:
            raise self._wrong(name, "true or false", value)
        return parsed

    def mapping(self, name: str) -> "RequestBody | None":
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return RequestBody(value)

    def _wrong(self, name: str, wanted: str, value: object) -> ApiError:
        return bad_body(f"body.{name}", f"{name} must be {wanted}, not {_shown(value)}.")


def parse_boolean(value: object) -> bool | None:
    """true, false, 1, 0 and the words for them; None for anything else."""
    if isinstance(value, bool):
        return value
    word = str(value).lower() if isinstance(value, (str, int)) else ""
    return True if word in _TRUE else False if word in _FALSE else None


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, (str, int, float)) and len(repr(value)) <= 60 else _kind(value)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
