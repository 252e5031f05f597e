"""What an allocation takes and stores becomes one event, in order with all that has an event of its own."""

import gc
import itertools
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hitcurve_engine.probes.events import ALLOCATED, FREED, LOOKUP, STORED, TAKEN
from hitcurve_engine.probes.manager_hooks import MANAGER_HOOKS
from hitcurve_engine.probes.pool_hooks import POOL_HOOKS
from hitcurve_engine.probes.probe import Probe
from hitcurve_engine.probes.request_glance import end_of_any, end_reader
from hitcurve_engine.switch import Switch

ONE, TWO, THREE = (SimpleNamespace(block_id=number) for number in (1, 2, 3))
HASHES = [b"a", b"b"]
GRANTED = object()
Steps = Callable[["Hooked", Any], Any]


class Request(SimpleNamespace):
    """Unlike its base, it can be referred to weakly."""


def request_of(name: str, **fields: Any) -> Any:
    usual = {"lora_request": None, "cache_salt": None, "mm_features": [], "prompt_embeds": None}
    more = {"skip_reading_prefix_cache": False, "num_tokens": 33, "block_hashes": HASHES, "status": 7}
    return Request(request_id=name, **{**usual, **more, **fields})


class Hooked:
    """Hooks around originals that do what each allocation is told to."""

    def __init__(self, *, copies: bool = False) -> None:
        self.switch, self.probe = Switch(), Probe(100, list, copies=copies)
        self.probe.holds_requests = False
        self._hitcurve_probe = self.probe
        self.steps: Steps = lambda hooked, request: GRANTED
        self.take = self.hook(POOL_HOOKS["get_new_blocks"], lambda owner, blocks: blocks)
        self.store = self.hook(POOL_HOOKS["cache_full_blocks"], cache_full_blocks)
        self.look_up = self.hook(MANAGER_HOOKS["get_computed_blocks"], lambda owner, request: (None, 16))
        self.free = self.hook(MANAGER_HOOKS["free"], lambda owner, request: None)
        self.allocating = self.hook(MANAGER_HOOKS["allocate_slots"], lambda owner, one: self.steps(self, one))

    def hook(self, make: Any, original: Any) -> Any:
        wrapper = make(original, self.switch)
        return lambda *arguments: wrapper(self, *arguments)

    def allocate(self, request: Any, steps: Steps) -> Any:
        self.steps = steps
        return self.allocating(request)

    def told(self) -> list[tuple[Any, ...]]:
        """The events so far, without their times."""
        events = [(event[0], *event[2:]) for event in self.probe.events]
        self.probe.events.clear()
        assert self.switch.errors == {}
        return events


def cache_full_blocks(
    owner: Any,
    request: Any,
    blocks: Any,
    num_cached_blocks: int,
    num_full_blocks: int,
    block_size: int,
    kv_cache_group_id: int,
) -> None:
    """As the pool's."""


def take_and_store(hooked: Hooked, request: Any) -> object:
    hooked.take([ONE, TWO])
    hooked.store(request, [ONE, TWO], 1, 2, 16, 0)
    return GRANTED


STORED_TWO = (0, 1, 2, HASHES, [ONE, TWO], 0, None)


def test_an_admission_is_two_events() -> None:
    hooked, request = Hooked(), request_of("r")
    hooked.look_up(request)
    assert hooked.allocate(request, take_and_store) is GRANTED
    assert hooked.told() == [
        (LOOKUP, "r", 33, 16, False, None, HASHES, None),
        (ALLOCATED, "r", [ONE, TWO], 2, STORED_TWO, True, None, None, None),
    ]


def test_a_later_step_tells_what_it_takes_and_counts_no_lookup() -> None:
    hooked, request = Hooked(), request_of("r")
    assert hooked.allocate(request, lambda hooked, request: GRANTED) is GRANTED
    assert hooked.told() == []
    hooked.allocate(request, lambda hooked, request: hooked.take([THREE]))
    assert hooked.told() == [(ALLOCATED, "r", [THREE], 1, None, False, None, None, None)]


def test_a_lookup_counts_once_blocks_are_granted() -> None:
    hooked, request = Hooked(), request_of("r")
    hooked.look_up(request)
    assert hooked.allocate(request, lambda hooked, request: None) is None
    assert [event[0] for event in hooked.told()] == [LOOKUP]
    hooked.allocate(request, lambda hooked, request: GRANTED)
    assert hooked.told() == [(ALLOCATED, "r", None, 0, None, True, None, None, None)]


def test_an_allocation_that_fails_tells_what_it_took_and_passes_its_error_on() -> None:
    def failing(hooked: Hooked, request: Any) -> None:
        hooked.take([ONE])
        raise ZeroDivisionError

    hooked, request = Hooked(), request_of("r")
    hooked.look_up(request)
    with pytest.raises(ZeroDivisionError):
        hooked.allocate(request, failing)
    assert hooked.told()[1:] == [(ALLOCATED, "r", [ONE], 1, None, False, None, None, None)]
    hooked.take([TWO])
    hooked.allocate(request, lambda hooked, request: GRANTED)
    assert hooked.told() == [
        (TAKEN, [TWO], 1, None),
        (ALLOCATED, "r", None, 1, None, True, None, None, None),
    ]


def test_what_an_allocation_does_twice_stays_in_order() -> None:
    def twice(hooked: Hooked, request: Any) -> object:
        hooked.take([ONE])
        hooked.take([TWO])
        hooked.store(request, [ONE, TWO], 0, 1, 16, 0)
        hooked.take([THREE])
        hooked.store(request, [ONE, TWO], 1, 2, 16, 0)
        return GRANTED

    hooked, request = Hooked(), request_of("r")
    hooked.allocate(request, twice)
    first = (0, 0, 1, HASHES, [ONE, TWO], 0, None)
    assert hooked.told() == [
        (ALLOCATED, "r", [ONE], 1, None, False, None, None, None),
        (TAKEN, [TWO], 1, "r"),
        (ALLOCATED, "r", None, 1, first, False, None, None, None),
        (TAKEN, [THREE], 1, "r"),
        (ALLOCATED, "r", None, 1, STORED_TWO, False, None, None, None),
    ]


def test_outside_of_an_allocation_and_with_several_lists_all_have_their_own_event() -> None:
    hooked, request = Hooked(), request_of("r")
    take_and_store(hooked, request)
    assert hooked.told() == [(TAKEN, [ONE, TWO], 2, None), (STORED, "r", STORED_TWO, None)]
    hooked = Hooked(copies=True)
    hooked.allocate(request, take_and_store)
    copied = (0, 1, 2, HASHES, [TWO], 1, None)
    assert hooked.told() == [(TAKEN, [ONE, TWO], 2, "r"), (STORED, "r", copied, None)]


@pytest.mark.parametrize(
    "isolating",
    [{"lora_request": object()}, {"cache_salt": "one"}, {"mm_features": [object()]}, {"prompt_embeds": object()}],
)
@pytest.mark.parametrize("old", [False, True])
def test_a_request_that_something_isolates_comes_along(isolating: dict[str, Any], old: bool) -> None:
    hooked, request = Hooked(), request_of("r", **isolating)
    if old:  # a version without one of the attributes
        absent = next(name for name in ("cache_salt", "mm_features", "prompt_embeds") if name not in isolating)
        delattr(request, absent)
    hooked.look_up(request)
    hooked.allocate(request, take_and_store)
    hooked.store(request, [ONE, TWO], 1, 2, 16, 0)
    hooked.free(request)
    events = hooked.told()
    assert [event[0] for event in events] == [LOOKUP, ALLOCATED, STORED, FREED]
    assert all(event[-1] is request for event in events)


def test_the_queue_keeps_no_other_request() -> None:
    hooked, request = Hooked(), request_of("r")
    gone = weakref.ref(request)
    hooked.look_up(request)
    hooked.allocate(request, take_and_store)
    hooked.free(request)
    hooked.look_up(request_of("next"))
    del request
    gc.collect()
    assert gone() is None
    assert len(hooked.told()) == 4


def test_every_request_comes_along_where_its_tokens_are_needed() -> None:
    hooked, request = Hooked(), request_of("r")
    hooked.probe.holds_requests = True
    hooked.look_up(request)
    hooked.allocate(request, take_and_store)
    assert [event[-1] for event in hooked.told()] == [request, request]


ENDS = {
    "num_prompt_tokens": 5,
    "num_cached_tokens": 4,
    "num_external_computed_tokens": 3,
    "trace_headers": {"traceparent": "00"},
    "sampling_params": SimpleNamespace(extra_args={"traceparent": "01"}),
    "arrival_time": 2.0,
    "num_output_tokens": 1,
}


@pytest.mark.parametrize("headers", [None, {}, {"traceparent": "00"}])
@pytest.mark.parametrize("parameters", [None, SimpleNamespace(extra_args=None), ENDS["sampling_params"]])
def test_the_end_of_a_request_reads_the_same_whatever_its_version_lacks(headers: Any, parameters: Any) -> None:
    fields = {**ENDS, "trace_headers": headers, "sampling_params": parameters}
    for absent in itertools.chain.from_iterable(itertools.combinations(ENDS, many) for many in range(4)):
        request = request_of("r", **{name: value for name, value in fields.items() if name not in absent})
        expected = (FREED, "r", 7, *(fields[name] if name not in absent else None for name in list(ENDS)[:3]))
        found, plainly = end_reader(request)(request), end_of_any(request)
        assert (found[0], *found[2:7]) == expected
        assert (found[0], *found[2:]) == (plainly[0], *plainly[2:])
    full = end_reader(request_of("r", **fields))(request_of("r", **fields))
    extra = None if parameters is None else parameters.extra_args
    assert full[7:] == (headers or extra, 2.0, 1, None)
