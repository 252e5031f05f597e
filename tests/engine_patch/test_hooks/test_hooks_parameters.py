"""Wrappers with the parameters of what they wrap: where they are taken, and that they hand everything on."""

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from hitcurve_engine.probes import manager_hooks
from hitcurve_engine.probes.patching import same_parameters
from hitcurve_engine.switch import Switch


def wrapper(self: Any, request: Any, mask: Any = None) -> None: ...


def the_same(self: Any, request: Any, mask: Any = None) -> None: ...


def other_name(self: Any, one: Any, mask: Any = None) -> None: ...


def other_default(self: Any, request: Any, mask: Any = 3) -> None: ...


def no_default(self: Any, request: Any, mask: Any) -> None: ...


def one_more(self: Any, request: Any, mask: Any = None, more: Any = None) -> None: ...


def by_keyword(self: Any, request: Any, mask: Any = None, *, more: Any = None) -> None: ...


def by_position(self: Any, request: Any, /, mask: Any = None) -> None: ...


@functools.wraps(the_same)
def wrapped(*arguments: Any, **options: Any) -> None: ...


@pytest.mark.parametrize(
    ("method", "same"),
    [
        (the_same, True),
        (other_name, False),
        (other_default, False),
        (no_default, False),
        (one_more, False),
        (by_keyword, False),
        (by_position, False),
        (wrapped, False),
        (functools.partial(the_same), False),
        (print, False),
    ],
)
def test_which_methods_have_the_parameters_of_their_wrapper(method: Any, same: bool) -> None:
    assert same_parameters(method, wrapper) is same


def test_what_vllm_hands_on_reaches_its_method_unchanged() -> None:
    """Every argument of ``allocate_slots`` as 0.32 has it, by position and by name."""
    seen: list[tuple[Any, ...]] = []

    def allocate_slots(
        self: Any,
        request: Any,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: Any = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
        skip_zeroing_group_ids: Any = (),
    ) -> None:
        arguments = locals()
        seen.append(tuple(arguments[name] for name in names))

    names = allocate_slots.__code__.co_varnames[: allocate_slots.__code__.co_argcount]
    hook = manager_hooks.MANAGER_HOOKS["allocate_slots"](allocate_slots, Switch())
    owner = SimpleNamespace(_hitcurve_probe=None)
    given = dict(zip(names[1:], map(str, range(12)), strict=True))
    hook(owner, *given.values())
    hook(owner, **given)
    hook(owner, "r", 1)
    assert seen[0] == seen[1] == (owner, *given.values())
    assert seen[2] == (owner, "r", 1, *(allocate_slots.__defaults__ or ()))
