"""``hitcurve load``: traffic of a named profile, or of a trace."""

from pathlib import Path
from typing import Annotated

import typer

from hitcurve_loadtests.execute import run_load
from hitcurve_loadtests.plan import LoadOptions, plan_load
from hitcurve_loadtests.planned_trace import write_planned_trace
from hitcurve_loadtests.profiles.catalogue import profile_titles

__all__ = ["app"]

_PROFILE_LIST = "A YAML file, or one of: " + "; ".join(
    f"{name}: {title}" for name, title in profile_titles().items()
)
_EPILOG = (
    "Examples: hitcurve load shared-system-prompt --host http://127.0.0.1:8000 --rate 10 --duration 60 "
    "--groups 4 --prefix-tokens 1024 --out runs/today  |  two runs beside each other: hitcurve load compare "
    "--help  |  what a setting costs: hitcurve load overhead --help"
)
_SIZES = "Sizes (default: the profile's)"
_WHEN = "When requests are sent"
_WHERE = "Where they go"
_TRACE = "Trace"
_RESULTS = "Results"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(epilog=_EPILOG)
def load(
    host: Annotated[
        list[str],
        typer.Option(help="URL of the engine; repeat it for several.", show_default=False, rich_help_panel=_WHERE),
    ],
    profile: Annotated[str | None, typer.Argument(help=_PROFILE_LIST, show_default=False)] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model or adapter; repeat it and requests go to them in turn.", rich_help_panel=_WHERE),
    ] = None,
    spread: Annotated[
        str,
        typer.Option(
            help="Several hosts: 'sticky' keeps what shares a prefix on one, 'scattered' takes turns.",
            rich_help_panel=_WHERE,
        ),
    ] = "sticky",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Open loop: requests per second, whatever the engine does (default 5).", rich_help_panel=_WHEN
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="Closed loop instead: requests kept in flight.", rich_help_panel=_WHEN)
    ] = None,
    think_time: Annotated[
        float,
        typer.Option(help="Closed loop: mean pause of a user before the next request.", rich_help_panel=_WHEN),
    ] = 0.0,
    arrivals: Annotated[
        str,
        typer.Option(
            help="Open loop: 'poisson', 'constant', 'bursty' (8 at once) or 'diurnal'.", rich_help_panel=_WHEN
        ),
    ] = "poisson",
    day: Annotated[float, typer.Option(help="Diurnal: seconds of a day.", rich_help_panel=_WHEN)] = 600.0,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of sending (default 30).", rich_help_panel=_WHEN)
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option("--requests", "--max-requests", help="Stop after this many requests.", rich_help_panel=_WHEN),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(help="Requests left out of the warm hit rate.", rich_help_panel=_RESULTS),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides every prompt and arrival; a new one each run unless given.")
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Share the load among this many processes, each with texts of its own.")
    ] = 1,
    groups: Annotated[int | None, typer.Option(help="Number of shared prefixes.", rich_help_panel=_SIZES)] = None,
    prefix_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a shared prefix.", rich_help_panel=_SIZES)
    ] = None,
    suffix_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a request's own question.", rich_help_panel=_SIZES)
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(help="Tokens to generate; of a trace, the most.", rich_help_panel=_SIZES)
    ] = None,
    zipf: Annotated[
        float | None,
        typer.Option(help="How unevenly groups are asked: weight 1/rank^Z, 0 is even.", rich_help_panel=_SIZES),
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(help="Chats open at the same time.", rich_help_panel=_SIZES)
    ] = None,
    turns: Annotated[int | None, typer.Option(help="Requests of a chat.", rich_help_panel=_SIZES)] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other size of the profile as NAME=VALUE or NAME=LEAST,MOST; repeatable.",
            rich_help_panel=_SIZES,
        ),
    ] = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            help="Whose tokens sizes are: 'auto' asks the engine's /tokenize, 'bytes', or a tokenizer.json.",
            rich_help_panel=_SIZES,
        ),
    ] = "auto",
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Replay it instead: Mooncake, Bailian, kv-cache-tester, Azure, ShareGPT, OpenAI log.",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option(help="How many times faster than recorded.", rich_help_panel=_TRACE)
    ] = 1.0,
    block_size: Annotated[
        int | None, typer.Option(help="Tokens of one hash id (default: the format's).", rich_help_panel=_TRACE)
    ] = None,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(help="Cut longer prompts.", rich_help_panel=_TRACE)
    ] = None,
    api: Annotated[
        str | None,
        typer.Option(help="'chat' or 'completions' (default: the profile's).", rich_help_panel=_WHERE),
    ] = None,
    cache_salt: Annotated[
        str | None,
        typer.Option(help="Sent along; engines share no blocks across salts.", rich_help_panel=_WHERE),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="HITCURVE_API_KEY", help="Bearer token of the engine.", rich_help_panel=_WHERE),
    ] = None,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for exactly the output tokens.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds without a byte after which a request failed.")] = 120.0,
    max_in_flight: Annotated[
        int, typer.Option(help="Open loop: most requests at the same time.", rich_help_panel=_WHEN)
    ] = 1000,
    max_lag: Annotated[
        float,
        typer.Option(
            help="Results are invalid if the generator lags by more seconds at p99.", rich_help_panel=_RESULTS
        ),
    ] = 0.1,
    exporter: Annotated[
        str | None,
        typer.Option(
            help="URL of hitcurve's exporter, to put its number beside the others.", rich_help_panel=_RESULTS
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            max=65535,
            help="Serve /metrics for Prometheus meanwhile; 0 finds a port, processes take one after the other.",
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    metrics_address: Annotated[
        str, typer.Option(help="Address to serve them at.", rich_help_panel=_RESULTS)
    ] = "127.0.0.1",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for requests.jsonl, load-NAME.json and .html.", rich_help_panel=_RESULTS),
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Also write requests-NAME.parquet.", rich_help_panel=_RESULTS)
    ] = False,
    log_prompts: Annotated[
        bool,
        typer.Option(
            "--log-prompts",
            help="Also write prompts.jsonl, prompts and replies in clear text, for 'hitcurve reconcile'.",
            rich_help_panel=_RESULTS,
        ),
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of this load (default: the profile's).", rich_help_panel=_RESULTS)
    ] = None,
    planned: Annotated[
        Path | None,
        typer.Option(
            help="Send nothing: write the requests as a trace for 'hitcurve estimate --tokenizer bytes'.",
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON.", rich_help_panel=_RESULTS)
    ] = False,
) -> None:
    """Send streamed requests to an engine and measure TTFT, time per token and cached tokens of each.

    Exit code 1: requests failed or the generator lagged; 3: no engine answers.
    """
    options = {key: value for key, value in locals().items() if key != "as_json"}
    plan = plan_load(LoadOptions(**options))
    if planned is not None:
        write_planned_trace(plan, planned)
    else:
        run_load(plan, as_json=as_json)
