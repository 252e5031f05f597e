"""Put a wrapper around a method of a class, and take it off again, without disturbing other people's wrappers."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["MethodPatch", "parameter_position", "same_parameters", "wrap_method"]

Method = Callable[..., Any]


class MethodPatch:
    """One wrapped method of one class."""

    __slots__ = ("_inherited", "name", "original", "owner", "wrapper")

    def __init__(self, owner: type, name: str, original: Method, wrapper: Method, *, inherited: bool) -> None:
        self.owner = owner
        self.name = name
        self.original = original
        self.wrapper = wrapper
        self._inherited = inherited

    def remove(self) -> bool:
        """Put the original back. False where somebody wrapped the method after us: then our wrapper stays in the
        middle of the chain, and must only call on."""
        if self.owner.__dict__.get(self.name) is not self.wrapper:
            return False
        if self._inherited:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)
        return True


def wrap_method(owner: type, name: str, make: Callable[[Method], Method]) -> MethodPatch | None:
    """Replace ``owner.name`` by ``make(original)``; ``None`` where the class has no such method.

    The wrapper gets the original's name, documentation and ``__wrapped__``, so that its signature can be read
    through it.
    """
    original = getattr(owner, name, None)
    if not inspect.isfunction(original):
        return None
    wrapper = functools.wraps(original)(make(original))
    patch = MethodPatch(owner, name, original, wrapper, inherited=name not in owner.__dict__)
    setattr(owner, name, wrapper)
    return patch


def parameter_position(method: Method, name: str) -> int | None:
    """Place of a parameter among the positional ones, ``self`` being 0; ``None`` where there is none."""
    try:
        parameters = list(inspect.signature(method).parameters)
    except (TypeError, ValueError):
        return None
    return parameters.index(name) if name in parameters else None


def same_parameters(method: Method, wrapper: Method) -> bool:
    """Whether a method is a function with the parameters and defaults of its wrapper, none by keyword only. Then
    the wrapper may hand them on by position, which costs less than one that takes everything, and nobody sees a
    difference. Where the method is a wrapper of somebody's, what that itself takes is compared."""
    one, other = getattr(method, "__code__", None), wrapper.__code__
    if one is None or one.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or one.co_kwonlyargcount:
        return False
    names, expected = one.co_varnames[: one.co_argcount], other.co_varnames[: other.co_argcount]
    defaults = getattr(method, "__defaults__", None), wrapper.__defaults__
    return names == expected and not one.co_posonlyargcount and defaults[0] == defaults[1]
