"""Runs slices of one load on two engines in turns, the pair of a turn with the same seed."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve_loadtests.intervals import ratio_of_pairs

__all__ = ["Slice", "overhead", "run_slice"]

_BEYOND_S = 120.0


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice showed; ``None`` is "no value". Times in seconds."""

    requests_per_s: float | None
    prompt_tokens_per_s: float | None
    ttft_p50_s: float | None
    hit_rate: float | None
    verdict: str
    reasons: tuple[str, ...] = ()


def run_slice(
    profile: str,
    host: str,
    words: Sequence[str],
    seed: int,
    duration_s: float,
    *,
    beyond_s: float = _BEYOND_S,
) -> Slice:
    """One slice, in a process of its own; UsageError or EnvironmentFailed where it cannot be run.

    It may take ``beyond_s`` seconds longer than its sending.
    """
    command = [sys.executable, "-m", "hitcurve", "load", profile, "--host", host, "--seed", str(seed), "--json"]
    try:
        done = subprocess.run(
            [*command, "--duration", str(duration_s), *words],
            capture_output=True,
            text=True,
            timeout=duration_s + beyond_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailed(
            f"a slice of {duration_s:g} s on {host} had not ended after {error.timeout:g} s; does the engine hang?"
        ) from error
    if not done.stdout.strip():
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1].removeprefix("hitcurve: ")
        raise (UsageError if done.returncode == UsageError.exit_code else EnvironmentFailed)(said)
    summary = json.loads(done.stdout)
    return Slice(
        requests_per_s=summary["throughput"]["requests_per_s"],
        prompt_tokens_per_s=summary["throughput"]["prompt_tokens_per_s"],
        ttft_p50_s=summary["ttft_s"]["all"]["p50"],
        hit_rate=summary["cache"]["hit_rate"],
        verdict=summary["verdict"],
        reasons=tuple(summary["reasons"]),
    )


def overhead(
    slices: int, warm_up: int, seed: int, run: Callable[[str, int], Slice], told: Callable[[str], None]
) -> dict[str, Any]:
    """``slices`` pairs after ``warm_up`` uncounted ones; ``run`` runs a slice on ``"a"`` or ``"b"``.

    The order alternates, A B B A, so that what drifts meets both alike.
    """
    pairs: list[tuple[Slice, Slice]] = []
    for number in range(-warm_up, slices):
        order = ("a", "b") if number % 2 == 0 else ("b", "a")
        found = {side: run(side, seed + number + warm_up) for side in order}
        told(f"pair {number + 1} of {slices}" if number >= 0 else "warming up")
        if number >= 0:
            pairs.append((found["a"], found["b"]))
    problems = sorted({reason for pair in pairs for one in pair for reason in one.reasons})
    return {
        "pairs": len(pairs),
        "seed": seed,
        "verdict": "ok" if all(one.verdict == "ok" for pair in pairs for one in pair) else "invalid",
        "reasons": problems,
        "throughput_ratio": _ratio(pairs, lambda one: one.requests_per_s),
        "ttft_ratio": _ratio(pairs, lambda one: one.ttft_p50_s),
        "slices": [{"a": asdict(a), "b": asdict(b)} for a, b in pairs],
    }


def _ratio(pairs: Sequence[tuple[Slice, Slice]], measure: Callable[[Slice], float | None]) -> dict[str, Any]:
    values = [(measure(a), measure(b)) for a, b in pairs]
    return asdict(ratio_of_pairs([(a, b) for a, b in values if a is not None and b is not None]))
