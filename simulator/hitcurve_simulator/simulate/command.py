"""``hitcurve simulate``: the command line."""

import json
import sys
from typing import Annotated, Any, TypeVar, get_args

import typer

from hitcurve.errors import UsageError
from hitcurve.progress import progress_over
from hitcurve_simulator.sglang import POLICIES
from hitcurve_simulator.simulate.choice import (
    RULES,
    Choice,
    make_replay,
    refuse_foreign_options,
    settled_groups,
    settled_lifetime,
    settled_policy,
    settled_prices,
    settled_version,
    without_what_does_not_apply,
)
from hitcurve_simulator.simulate.result import SimulationResult, as_json
from hitcurve_simulator.simulate.source import Source, load_source
from hitcurve_simulator.simulate.table import print_table
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.parse_row import Turns
from hitcurve_simulator.vllm import DEFAULT_VERSION
from hitcurve_simulator.workloads import WORKLOADS

__all__ = ["app"]

UNLIMITED = "unlimited"

Word = TypeVar("Word", bound=str)
_MOST_DIGITS = 15

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    epilog="Examples: 'hitcurve simulate F --seed 3', "
    "'hitcurve simulate trace.jsonl --block-size 512 --pool-blocks 5859 --json'."
)
def simulate(
    source: Annotated[str, typer.Argument(metavar="WORKLOAD|TRACE", help="A to F, or a JSONL file.")],
    rules: Annotated[str, typer.Option(help=f"Cache rules: {', '.join(RULES)}.")] = "vllm",
    version: Annotated[
        str | None, typer.Option(help=f"Version of vLLM whose rules apply (default: {DEFAULT_VERSION}).")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Tokens per block (default: 512 Mooncake, else 16).")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="full:32,128:16",
            help="Rules vllm: groups of attention, each 'full' or a window in tokens, and its block size.",
        ),
    ] = None,
    page_size: Annotated[
        int | None, typer.Option(min=1, help="Rules sglang: tokens per page (default: 1 for workloads).")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help=f"Rules sglang: {', '.join(POLICIES)} (default: lru).")
    ] = None,
    minimum_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="Rules explicit: shortest prefix that is cached (default: 1024)."),
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(metavar="5m|1h", help="Rules explicit: lifetime of an entry (default: 5m).")
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(metavar="WRITE5M,WRITE1H,READ", help="Rules explicit: multiples of a plain input token."),
    ] = None,
    pool_blocks: Annotated[
        str | None, typer.Option(metavar="N|unlimited", help="Usable blocks of the pool.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests that hold blocks at once (default: 1, workloads 8).")
    ] = None,
    outputs: Annotated[
        bool | None, typer.Option("--outputs/--no-outputs", help="Outputs take room in the pool and are cached.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a workload.")] = 0,
    time_unit: Annotated[
        str | None, typer.Option(metavar="ms|s", help="Unit of timestamps (default: the format's).")
    ] = None,
    turns: Annotated[
        str,
        typer.Option(
            metavar="cumulative|delta", help="Whether a chat turn's input_length covers the whole chat so far."
        ),
    ] = "cumulative",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first line that is rejected.")] = False,
    per_request: Annotated[bool, typer.Option("--per-request", help="Hit tokens of each request.")] = False,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run cache rules on a workload or a trace: hits, evictions, miss reasons, per request on demand.

    A trace is replayed one request at a time. With hash ids only full prompt blocks take a place in the pool.
    Lines that cannot be replayed are rejected with a reason; the rest is served.
    """
    version = settled_version(rules, version)
    block_size = _block_size(rules, source, block_size, page_size)
    settled = settled_policy(rules, policy)
    attention = settled_groups(rules, groups)
    refuse_foreign_options(rules, {"--minimum-tokens": minimum_tokens, "--lifetime": lifetime, "--prices": prices})
    with progress_over(f"reading {source}") as on_line:
        loaded = load_source(source, seed, block_size, _time_unit(time_unit), _turns(turns), strict, on_line)
    choice = Choice(
        rules=rules,
        version=version,
        block_size=loaded.block_size,
        pool_blocks=loaded.pool_blocks if pool_blocks is None else _pool_blocks(pool_blocks),
        concurrency=concurrency or loaded.concurrency,
        outputs=loaded.outputs if outputs is None else outputs,
        policy=settled,
        minimum_tokens=1024 if minimum_tokens is None else minimum_tokens,
        lifetime=settled_lifetime(lifetime),
        prices=settled_prices(prices),
        groups=attention,
    )
    given = {"--pool-blocks": pool_blocks, "--concurrency": concurrency, "--outputs": outputs}
    choice, idle = without_what_does_not_apply(choice, given)
    for option in idle:
        print(f"hitcurve: {option} changes nothing, since the rules '{rules}' do not know it.", file=sys.stderr)
    result = _run(choice, loaded)
    if as_json_text:
        print(json.dumps({**as_json(result, per_request), **_about(choice, loaded)}))
    else:
        print_table(result, {**_about(choice, loaded), "source": loaded.name}, per_request)


def _run(choice: Choice, source: Source) -> SimulationResult:
    with progress_over(f"replaying {source.name}", len(source.rows)) as on_row:
        result = make_replay(choice, source.rows).run(source.rows, on_row)
    if not result.served:
        raise UsageError(
            f"no request of {source.name} fits: line {result.rejected[0].line} {result.rejected[0].reason}; "
            "give more --pool-blocks."
        )
    result.rejected = sorted([*source.rejected, *result.rejected], key=lambda finding: finding.line)
    return result


def _about(choice: Choice, source: Source) -> dict[str, Any]:
    """The effective settings, beside the results in the JSON form."""
    return {
        "rules": choice.rules,
        "version": choice.version,
        **({"policy": choice.policy} if choice.rules == "sglang" else {}),
        **({"groups": [str(attention) for attention in choice.groups]} if choice.groups else {}),
        "block_size": choice.block_size,
        "pool_blocks": choice.pool_blocks,
        "concurrency": choice.concurrency,
        "outputs": choice.outputs,
        "format": source.format,
        "duration_s": source.duration_s,
        "sessions": [list(session) for session in source.sessions],
        "warnings": [{"line": finding.line, "reason": finding.reason} for finding in source.warnings],
    }


def _block_size(rules: str, source: str, block_size: int | None, page_size: int | None) -> int | None:
    """Tokens per block; a page of SGLang is a block. None leaves it to the trace."""
    if rules != "sglang":
        if page_size is not None:
            raise UsageError(f"--page-size is for the rules 'sglang'; for '{rules}' give --block-size.")
        return block_size
    if page_size is not None and block_size is not None and page_size != block_size:
        raise UsageError(f"--page-size is {page_size} and --block-size {block_size}; a page is a block, give one.")
    return page_size or block_size or (1 if source in WORKLOADS else None)


def _pool_blocks(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise UsageError(f"--pool-blocks is '{text}'; give a number of blocks from 1 on, or '{UNLIMITED}'.")
    return int(text)


def _time_unit(text: str | None) -> TimeUnit | None:
    return None if text is None else _one_of("--time-unit", text, get_args(TimeUnit))


def _turns(text: str) -> Turns:
    return _one_of("--turns", text, get_args(Turns))


def _one_of(option: str, text: str, allowed: tuple[Word, ...]) -> Word:
    for word in allowed:
        if word == text:
            return word
    raise UsageError(f"{option} is '{text}'; give {' or '.join(allowed)}.")
