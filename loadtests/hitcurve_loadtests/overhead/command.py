"""``hitcurve load overhead``: throughput and TTFT of two engines under the same load, in turns."""

import json
import random
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hitcurve.errors import BadFinding
from hitcurve_loadtests.overhead.slices import Slice, overhead, run_slice

__all__ = ["app"]

_LARGEST_SEED = 2**30

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    "overhead",
    epilog="Example: one vLLM with the plugin on port 8001, one without on 8000, then: hitcurve load overhead "
    "--a http://127.0.0.1:8000 --b http://127.0.0.1:8001 --slices 10",
)
def measure_overhead(
    a: Annotated[str, typer.Option(help="URL of the engine to compare with.", show_default=False)],
    b: Annotated[str, typer.Option(help="URL of the engine that has what may cost.", show_default=False)],
    profile: Annotated[str, typer.Argument(help="Traffic; the default never hits.")] = "unique",
    slices: Annotated[int, typer.Option(min=2, help="Pairs of slices that count.")] = 10,
    slice_s: Annotated[float, typer.Option(min=0.5, help="Seconds of a slice.")] = 10.0,
    warm_up: Annotated[int, typer.Option(min=0, help="Pairs before them that do not count.")] = 1,
    users: Annotated[int, typer.Option(min=1, help="Closed loop: requests kept in flight.")] = 8,
    output_tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate.")] = 16,
    seed: Annotated[
        int | None, typer.Option(help="Decides every prompt; a new one each time unless given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run slices of a load on engine A and engine B in turns; print B / A with 95 % intervals.

    Both slices of a pair send the same prompts. Keep the machine quiet: an interval that holds 1 shows nothing.
    """
    first = random.SystemRandom().randrange(_LARGEST_SEED) if seed is None else seed
    words = ["--users", str(users), "--output-tokens", str(output_tokens), "--max-lag", "1000"]
    hosts = {"a": a, "b": b}

    def run(side: str, of_pair: int) -> Slice:
        return run_slice(profile, hosts[side], words, of_pair, slice_s)

    answer = {"a": a, "b": b, "profile": profile, **overhead(slices, warm_up, first, run, _tell)}
    if as_json:
        print(json.dumps(answer))
    else:
        _print(answer)
    if answer["verdict"] != "ok":
        raise BadFinding(f"the slices are not to be relied on: {'; '.join(answer['reasons'])}.")


def _tell(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def _print(answer: Mapping[str, Any]) -> None:
    print(f"{answer['pairs']} pairs of slices of '{answer['profile']}', seed {answer['seed']}")
    for name, title in (("throughput_ratio", "requests per second, B / A"), ("ttft_ratio", "TTFT p50, B / A")):
        ratio = answer[name]
        if ratio["value"] is None:
            print(f"  {title}: no value")
        else:
            span = "" if ratio["low"] is None else f" (95 %: {ratio['low']:.3f} to {ratio['high']:.3f})"
            print(f"  {title}: {ratio['value']:.3f}{span}")
