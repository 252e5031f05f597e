"""``hitcurve load``: traffic of a named profile, or of a trace."""

from pathlib import Path
from typing import Annotated

import typer

from hitcurve_loadtests.execute import run_load
from hitcurve_loadtests.plan import LoadOptions, plan_load
from hitcurve_loadtests.profiles.catalogue import PROFILES

__all__ = ["app"]

_PROFILE_LIST = "; ".join(f"[bold]{name}[/]: {entry.help}" for name, entry in PROFILES.items())
_EPILOG = (
    "Example: hitcurve load shared-system-prompt --host http://127.0.0.1:8000 --rate 10 --duration 60 "
    "--groups 4 --prefix-tokens 1024 --out runs/today"
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(epilog=_EPILOG)
def load(
    host: Annotated[str, typer.Option(help="URL of the engine.", show_default=False)],
    profile: Annotated[str | None, typer.Argument(help=_PROFILE_LIST, show_default=False)] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Model or adapter; repeat it and requests go to them in turn.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Open loop: requests per second, whatever the engine does (default 5).")
    ] = None,
    users: Annotated[int | None, typer.Option(help="Closed loop instead: requests kept in flight.")] = None,
    arrivals: Annotated[str, typer.Option(help="Open loop: 'poisson' or 'constant' gaps.")] = "poisson",
    duration: Annotated[float | None, typer.Option(help="Seconds of sending (default 30).")] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", "--max-requests", help="Stop after this many requests.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides every prompt and arrival; a new one each run unless given.")
    ] = None,
    groups: Annotated[int, typer.Option(help="Number of shared prefixes.")] = 8,
    prefix_tokens: Annotated[int, typer.Option(help="Tokens of a shared prefix.")] = 512,
    suffix_tokens: Annotated[int, typer.Option(help="Tokens of a request's own question.")] = 64,
    output_tokens: Annotated[
        int | None, typer.Option(help="Tokens to generate (default 16); of a trace, the most.")
    ] = None,
    zipf: Annotated[float, typer.Option(help="How unevenly groups are asked: weight 1/rank^Z, 0 is even.")] = 1.0,
    sessions: Annotated[int, typer.Option(help="multi-turn: chats open at the same time.")] = 8,
    turns: Annotated[int, typer.Option(help="multi-turn: requests of a chat.")] = 6,
    trace: Annotated[
        Path | None, typer.Option(help="Replay this trace (Mooncake JSONL) instead of a profile.")
    ] = None,
    speed: Annotated[float, typer.Option(help="Trace: how many times faster than recorded.")] = 1.0,
    block_size: Annotated[int, typer.Option(help="Trace: tokens of one hash id.")] = 512,
    max_prompt_tokens: Annotated[int | None, typer.Option(help="Trace: cut longer prompts.")] = None,
    api: Annotated[
        str | None, typer.Option(help="'chat' or 'completions' (default: chat for multi-turn only).")
    ] = None,
    cache_salt: Annotated[
        str | None, typer.Option(help="Sent along; engines share no blocks across salts.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="HITCURVE_API_KEY", help="Bearer token of the engine.")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for exactly the output tokens.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds without a byte after which a request failed.")] = 120.0,
    max_in_flight: Annotated[int, typer.Option(help="Open loop: most requests at the same time.")] = 1000,
    max_lag: Annotated[
        float, typer.Option(help="Results are invalid if the generator lags by more seconds at p99.")
    ] = 0.1,
    out: Annotated[Path | None, typer.Option(help="Folder for requests.jsonl, load-NAME.json and .html.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of this load (default: the profile's).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Send streamed requests to an engine and measure TTFT, time per token and cached tokens of each.

    Exit code 1: requests failed or the generator lagged; 3: no engine answers.
    """
    options = {key: value for key, value in locals().items() if key != "as_json"}
    plan = plan_load(LoadOptions(**options))
    run_load(plan, as_json=as_json)
