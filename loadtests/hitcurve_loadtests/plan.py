"""From the options of a load, as a person gives them, to what the run needs; refuses what makes no sense."""

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hitcurve.errors import UsageError
from hitcurve_loadtests.arrivals import ArrivalKind, arrival_times
from hitcurve_loadtests.profiles.catalogue import PROFILES, Api, find_profile
from hitcurve_loadtests.profiles.profile import Profile, ProfileSettings
from hitcurve_loadtests.settings import LoadSettings
from hitcurve_loadtests.trace import TraceReplay, due_times, read_trace

__all__ = ["LoadOptions", "LoadPlan", "plan_load"]

_Value = TypeVar("_Value")

_DEFAULT_RATE = 5.0
_DEFAULT_DURATION_S = 30.0
_DEFAULT_OUTPUT_TOKENS = 16
_LARGEST_SEED = 2**31
_SECRETS = ("api_key", "cache_salt")
_APIS: dict[str, Api] = {"chat": "chat", "completions": "completions"}
_ARRIVALS: dict[str, ArrivalKind] = {"poisson": "poisson", "constant": "constant"}
_MAY_BE_ZERO = ("prefix_tokens", "zipf", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of ``hitcurve load`` by their names on the command line; durations in seconds."""

    host: str
    profile: str | None = None
    model: Sequence[str] | None = None
    rate: float | None = None
    users: int | None = None
    arrivals: str = "poisson"
    duration: float | None = None
    requests: int | None = None
    seed: int | None = None
    groups: int = 8
    prefix_tokens: int = 512
    suffix_tokens: int = 64
    output_tokens: int | None = None
    zipf: float = 1.0
    sessions: int = 8
    turns: int = 6
    trace: Path | None = None
    speed: float = 1.0
    block_size: int = 512
    max_prompt_tokens: int | None = None
    api: str | None = None
    cache_salt: str | None = None
    api_key: str | None = None
    ignore_eos: bool = True
    timeout: float = 120.0
    max_in_flight: int = 1000
    max_lag: float = 0.1
    out: Path | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A run that is ready to begin."""

    settings: LoadSettings
    profile: Profile
    due_times: Iterator[float] | None
    """Seconds after the start at which requests are sent; ``None`` in a closed loop."""
    arguments: dict[str, Any]
    """The options as given, for the summary; secrets left out."""


def plan_load(options: LoadOptions) -> LoadPlan:
    """Check the options and build profile and schedule; UsageError where something is wrong."""
    _check_numbers(options)
    if (options.profile is None) == (options.trace is None):
        raise UsageError(f"give a profile or --trace, one of them; the profiles are {', '.join(PROFILES)}.")
    if options.rate is not None and options.users is not None:
        raise UsageError("--rate (open loop) and --users (closed loop) exclude each other; give one of them.")
    settings = _settings(options)
    profile, recorded = _traffic(options, settings.seed)
    schedule = None if settings.users is not None else recorded
    if schedule is None and settings.users is None:
        schedule = arrival_times(options.rate or _DEFAULT_RATE, settings.arrivals, settings.seed)
    arguments = {key: _plain(value) for key, value in asdict(options).items() if key not in _SECRETS}
    return LoadPlan(settings, profile, schedule, arguments)


def _settings(options: LoadOptions) -> LoadSettings:
    profile = options.profile or "trace"
    api = options.api or ("completions" if options.profile is None else find_profile(options.profile).api)
    unlimited = (options.duration, options.requests, options.trace) == (None, None, None)
    return LoadSettings(
        name=_checked_name(options.name or profile),
        profile=profile,
        host=_checked_host(options.host),
        api=_choice("--api", api, _APIS),
        models=tuple(options.model or ()),
        seed=random.SystemRandom().randrange(_LARGEST_SEED) if options.seed is None else options.seed,
        users=options.users,
        arrivals=_choice("--arrivals", options.arrivals, _ARRIVALS),
        duration_s=_DEFAULT_DURATION_S if unlimited else options.duration,
        requests=options.requests,
        cache_salt=options.cache_salt,
        api_key=options.api_key,
        ignore_eos=options.ignore_eos,
        timeout_s=options.timeout,
        max_in_flight=options.max_in_flight,
        max_lag_s=options.max_lag,
        out=options.out,
    )


def _traffic(options: LoadOptions, seed: int) -> tuple[Profile, Iterator[float] | None]:
    """The profile, and the times of a trace unless --rate replaces them."""
    if options.profile is not None:
        sizes = ProfileSettings(
            seed=seed,
            groups=options.groups,
            prefix_tokens=options.prefix_tokens,
            suffix_tokens=options.suffix_tokens,
            output_tokens=options.output_tokens or _DEFAULT_OUTPUT_TOKENS,
            zipf=options.zipf,
            sessions=options.sessions,
            turns=options.turns,
        )
        return find_profile(options.profile).make(sizes), None
    assert options.trace is not None
    rows = read_trace(options.trace, options.block_size)
    replay = TraceReplay(
        rows,
        seed=seed,
        block_size=options.block_size,
        max_prompt_tokens=options.max_prompt_tokens,
        max_output_tokens=options.output_tokens,
    )
    return replay, due_times(rows, options.speed) if options.rate is None else None


def _check_numbers(options: LoadOptions) -> None:
    for name, value in asdict(options).items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            flag = f"--{name.replace('_', '-')}"
            if not math.isfinite(value):
                raise UsageError(f"{flag} is {value:g}; it must be a finite number.")
            if name in _MAY_BE_ZERO and value < 0:
                raise UsageError(f"{flag} is {value:g}; it must not be negative.")
            if name not in _MAY_BE_ZERO and not value > 0:
                raise UsageError(f"{flag} is {value:g}; it must be above zero.")


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[\w-][\w.-]{0,63}", name):
        raise UsageError(f"--name '{name}' must be a plain file name: letters, digits, '-', '_' and '.'.")
    return name


def _checked_host(host: str) -> str:
    try:
        parts = urlsplit(host)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"--host '{host}' is not an HTTP address; give one like http://127.0.0.1:8000.")
    return host.rstrip("/")


def _choice(flag: str, value: str, choices: dict[str, _Value]) -> _Value:
    if value not in choices:
        raise UsageError(f"{flag} is '{value}'; it must be one of {', '.join(choices)}.")
    return choices[value]


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
