"""The options that the locustfile adds to Locust's own."""

import random
from argparse import Namespace
from typing import Any

from hitcurve_loadtests.profiles.spec import ProfileSpec
from hitcurve_loadtests.settings import LoadSettings

__all__ = ["add_options", "settings_of"]

_LARGEST_SEED = 2**31
_TIMEOUT_S = 120.0


def add_options(parser: Any) -> None:
    """Add them to ``locust --help`` and to the form of the web interface."""
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        env_var="HITCURVE_SEED",
        help="Decides every prompt; 0 draws a new one, which is printed.",
    )
    parser.add_argument(
        "--model",
        default="",
        env_var="HITCURVE_MODEL",
        help="Model to ask; adapters with commas between them (default: what the engine serves).",
    )
    parser.add_argument(
        "--think-time",
        type=float,
        default=0.0,
        env_var="HITCURVE_THINK_TIME",
        help="Mean pause of a user before the next request, in seconds, exponential.",
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=0,
        env_var="HITCURVE_REQUESTS",
        help="Users of a process stop when it has sent so many requests, which ends a headless test; 0: no limit.",
    )
    parser.add_argument(
        "--warm-up",
        type=int,
        default=0,
        env_var="HITCURVE_WARM_UP",
        help="Requests of a process that are left out of the warm hit rate.",
    )
    parser.add_argument(
        "--api-key",
        default="",
        env_var="HITCURVE_API_KEY",
        is_secret=True,
        help="Bearer token of the engine.",
    )
    parser.add_argument(
        "--results",
        default="",
        metavar="FILE",
        env_var="HITCURVE_RESULTS",
        include_in_web_ui=False,
        help="Write hit rate, TTFT and both ends as JSON when the test has ended.",
    )


def draw_seed() -> int:
    """A seed of its own for a run that was given none."""
    return random.SystemRandom().randrange(1, _LARGEST_SEED)


def settings_of(options: Namespace, spec: ProfileSpec, host: str, worker: int) -> LoadSettings:
    """What one profile's users are asked to do."""
    return LoadSettings(
        name=spec.name,
        profile=spec.name,
        hosts=(host.rstrip("/"),),
        api=spec.api,
        models=tuple(name for name in options.model.split(",") if name),
        seed=options.seed,
        users=1,
        think_time_s=options.think_time,
        warm_up=options.warm_up,
        api_key=options.api_key or None,
        timeout_s=_TIMEOUT_S,
        fewest_models=spec.adapters.count if spec.adapters is not None else 1,
        worker=worker,
    )
