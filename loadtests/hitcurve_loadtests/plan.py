"""From the options of a load, as a person gives them, to what the run needs; refuses what makes no sense."""

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from hitcurve.address import base_address
from hitcurve.errors import UsageError
from hitcurve_loadtests.arrivals import ArrivalKind, arrival_times
from hitcurve_loadtests.profiles.catalogue import Api, find_profile, profile_names
from hitcurve_loadtests.profiles.spec import ProfileSpec
from hitcurve_loadtests.replay.opening import open_trace
from hitcurve_loadtests.replay.rows import Trace
from hitcurve_loadtests.replay.traffic import TraceReplay, due_times
from hitcurve_loadtests.settings import LoadSettings, Spread
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.traffic import Traffic

__all__ = ["LoadOptions", "LoadPlan", "plan_load"]

_Value = TypeVar("_Value")

_DEFAULT_RATE = 5.0
_DEFAULT_DURATION_S = 30.0
_LARGEST_SEED = 2**31
_SECRETS = ("api_key", "cache_salt")
_APIS: dict[str, Api] = {"chat": "chat", "completions": "completions"}
_ARRIVALS: dict[str, ArrivalKind] = {
    "poisson": "poisson",
    "constant": "constant",
    "bursty": "bursty",
    "diurnal": "diurnal",
}
_SPREADS: dict[str, Spread] = {"sticky": "sticky", "scattered": "scattered"}
_MAY_BE_ZERO = ("prefix_tokens", "zipf", "seed", "think_time", "warm_up", "worker", "metrics_port")
_LAST_PORT = 65535
_SIZES = ("groups", "prefix_tokens", "suffix_tokens", "output_tokens", "zipf", "sessions", "turns")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of ``hitcurve load`` by their names on the command line; durations in seconds.

    ``None`` is "not said": a size then is the profile's. ``worker`` is the number of this process among
    ``processes``, 0 for the one that a person starts.
    """

    host: str | Sequence[str]
    profile: str | None = None
    model: Sequence[str] | None = None
    rate: float | None = None
    users: int | None = None
    think_time: float = 0.0
    arrivals: str = "poisson"
    day: float = 600.0
    duration: float | None = None
    requests: int | None = None
    warm_up: int | None = None
    seed: int | None = None
    groups: int | None = None
    prefix_tokens: int | None = None
    suffix_tokens: int | None = None
    output_tokens: int | None = None
    zipf: float | None = None
    sessions: int | None = None
    turns: int | None = None
    sizes: Sequence[str] | None = None
    trace: Path | None = None
    speed: float = 1.0
    block_size: int | None = None
    max_prompt_tokens: int | None = None
    api: str | None = None
    cache_salt: str | None = None
    api_key: str | None = None
    ignore_eos: bool = True
    timeout: float = 120.0
    max_in_flight: int = 1000
    max_lag: float = 0.1
    spread: str = "sticky"
    tokenizer: str = "auto"
    processes: int = 1
    exporter: str | None = None
    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"
    out: Path | None = None
    parquet: bool = False
    log_prompts: bool = False
    name: str | None = None
    planned: Path | None = None
    worker: int = 0


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A run that is ready to begin."""

    settings: LoadSettings
    make_traffic: Callable[[Texts], Traffic]
    due_times: Iterator[float] | None
    """Seconds after the start at which requests are sent; ``None`` in a closed loop."""
    recorded_text: bool
    """Whether recorded text is sent as it was, whose tokens nobody knows beforehand."""
    options: LoadOptions
    """The options, with the seed that was drawn."""
    arguments: dict[str, Any]
    """The options as given, for the summary; secrets left out."""


def plan_load(options: LoadOptions) -> LoadPlan:
    """Check the options and build traffic and schedule; UsageError where something is wrong."""
    _check_numbers(options)
    if (options.profile is None) == (options.trace is None):
        raise UsageError(f"give a profile or --trace, one of them; the profiles are {', '.join(profile_names())}.")
    if options.rate is not None and options.users is not None:
        raise UsageError("--rate (open loop) and --users (closed loop) exclude each other; give one of them.")
    if options.think_time and options.users is None:
        raise UsageError("--think-time is a pause of users; give --users as well.")
    if options.seed is None:
        options = replace(options, seed=random.SystemRandom().randrange(_LARGEST_SEED))
    spec = None if options.profile is None else _profile(options, options.profile)
    trace = None if options.trace is None else _trace(options, options.trace)
    settings = _settings(options, spec, trace)
    make_traffic, recorded = _traffic(options, spec, trace)
    schedule = None if settings.users is not None else recorded
    if schedule is None and settings.users is None:
        rate = (options.rate or _DEFAULT_RATE) / options.processes
        seed = settings.seed + settings.worker
        schedule = arrival_times(rate, settings.arrivals, seed, day_s=options.day)
    arguments = {key: _plain(value) for key, value in asdict(options).items() if key not in _SECRETS}
    recorded_text = trace is not None and any(row.messages for row in trace.rows)
    return LoadPlan(settings, make_traffic, schedule, recorded_text, options, arguments)


def _profile(options: LoadOptions, name: str) -> ProfileSpec:
    """The profile with the sizes given beside it."""
    given = {size: value for size in _SIZES if (value := getattr(options, size)) is not None}
    for word in options.sizes or ():
        size, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"--set '{word}' must be NAME=VALUE, such as --set documents=100.")
        given[size.replace("-", "_")] = _parsed(text)
    return find_profile(name).with_sizes(given)


def _trace(options: LoadOptions, path: Path) -> Trace:
    if options.processes > 1:
        raise UsageError("a trace is replayed by one process, in its order; leave --processes out.")
    return open_trace(path, options.block_size)


def _settings(options: LoadOptions, spec: ProfileSpec | None, trace: Trace | None) -> LoadSettings:
    profile = "trace" if spec is None else spec.name
    api = options.api or (spec.api if spec is not None else trace.api if trace is not None else "completions")
    unlimited = (options.duration, options.requests, options.trace) == (None, None, None)
    hosts = [options.host] if isinstance(options.host, str) else options.host
    assert options.seed is not None
    return LoadSettings(
        name=_checked_name(options.name or profile),
        profile=profile,
        hosts=tuple(_checked_url("--host", host) for host in hosts),
        api=_choice("--api", api, _APIS),
        models=tuple(options.model or ()),
        seed=options.seed,
        users=_share_of(options.users, options),
        think_time_s=options.think_time,
        arrivals=_choice("--arrivals", options.arrivals, _ARRIVALS),
        duration_s=_DEFAULT_DURATION_S if unlimited else options.duration,
        requests=_share_of(options.requests, options),
        warm_up=_share_of(options.warm_up, options) or 0,
        cache_salt=options.cache_salt,
        api_key=options.api_key,
        ignore_eos=options.ignore_eos,
        timeout_s=options.timeout,
        max_in_flight=options.max_in_flight,
        max_lag_s=options.max_lag,
        spread=_choice("--spread", options.spread, _SPREADS),
        route="group" if spec is None else spec.route,
        tokenizer=options.tokenizer,
        fewest_models=spec.adapters.count if spec is not None and spec.adapters is not None else 1,
        worker=options.worker,
        exporter=None if options.exporter is None else _checked_url("--exporter", options.exporter),
        metrics_port=_metrics_port(options),
        metrics_address=options.metrics_address,
        out=options.out,
        log_prompts=_log_prompts(options),
    )


def _metrics_port(options: LoadOptions) -> int | None:
    """Of several workers each has a port of its own, one after the other."""
    port = options.metrics_port
    if port is None or options.processes == 1:
        return port
    if port == 0:
        raise UsageError(
            "--metrics-port 0 with --processes would hide where the metrics are; name the first port."
        )
    if port + options.processes - 1 > _LAST_PORT:
        raise UsageError(
            f"--metrics-port {port} leaves too few ports for {options.processes} processes; name a lower one."
        )
    return port + options.worker - 1 if options.worker else None


def _log_prompts(options: LoadOptions) -> bool:
    if options.log_prompts and options.out is None:
        raise UsageError("--log-prompts writes into the folder of --out; give it.")
    return options.log_prompts


def _traffic(
    options: LoadOptions, spec: ProfileSpec | None, trace: Trace | None
) -> tuple[Callable[[Texts], Traffic], Iterator[float] | None]:
    """How to make the traffic, and the times of a trace unless --rate replaces them."""
    if spec is not None:
        return spec.make, None
    assert trace is not None

    def make(texts: Texts) -> Traffic:
        return TraceReplay(
            trace, texts, max_prompt_tokens=options.max_prompt_tokens, max_output_tokens=options.output_tokens
        )

    return make, due_times(trace.rows, options.speed) if options.rate is None else None


def _share_of(total: int | None, options: LoadOptions) -> int | None:
    """This worker's part of a number, the first workers taking what does not divide."""
    if total is None or not options.worker:
        return total
    return total // options.processes + (options.worker <= total % options.processes)


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
    for name in ("users", "requests"):
        total = getattr(options, name)
        if total is not None and total < options.processes:
            raise UsageError(f"--{name} is {total}; {options.processes} processes need at least one each.")


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[\w-][\w.-]{0,63}", name):
        raise UsageError(f"--name '{name}' must be a plain file name: letters, digits, '-', '_' and '.'.")
    return name


def _checked_url(flag: str, host: str) -> str:
    try:
        return base_address(host)
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None


def _choice(flag: str, value: str, choices: Mapping[str, _Value]) -> _Value:
    if value not in choices:
        raise UsageError(f"{flag} is '{value}'; it must be one of {', '.join(choices)}.")
    return choices[value]


def _parsed(text: str) -> object:
    """A number, two numbers with a comma between them for a range, or the text itself."""
    if "," in text:
        return [_parsed(part) for part in text.split(",")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
