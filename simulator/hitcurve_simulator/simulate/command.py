"""``hitcurve simulate``: the command line."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

import typer

from hitcurve.errors import UsageError
from hitcurve_simulator.simulate.lru_replay import LruReplay
from hitcurve_simulator.simulate.progress import progress_over
from hitcurve_simulator.simulate.result import SimulationResult, as_json
from hitcurve_simulator.simulate.source import Source, load_source
from hitcurve_simulator.simulate.table import print_table
from hitcurve_simulator.simulate.vllm_replay import VllmReplay, VllmReplaySettings
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.parse_row import Turns
from hitcurve_simulator.vllm import DEFAULT_VERSION, rules_of_version

__all__ = ["app"]

RULES = ("vllm", "lru", "lru-head-first")
UNLIMITED = "unlimited"

Word = TypeVar("Word", bound=str)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class _Question:
    """What to simulate with which rules, options and defaults settled."""

    rules: str
    version: str
    pool_blocks: int | None
    concurrency: int
    outputs: bool


@app.command(
    epilog="Examples: 'hitcurve simulate F --seed 3', "
    "'hitcurve simulate trace.jsonl --block-size 512 --pool-blocks 5859 --json'."
)
def simulate(
    source: Annotated[str, typer.Argument(metavar="WORKLOAD|TRACE", help="A to F, or a JSONL file.")],
    rules: Annotated[str, typer.Option(help=f"Cache rules: {', '.join(RULES)}.")] = "vllm",
    version: Annotated[str, typer.Option(help="Engine version whose rules apply.")] = DEFAULT_VERSION,
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Tokens per block (default: 512 Mooncake, else 16).")
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
    _check_rules(rules, version)
    with progress_over(f"reading {source}") as on_line:
        loaded = load_source(source, seed, block_size, _time_unit(time_unit), _turns(turns), strict, on_line)
    question = _Question(
        rules=rules,
        version=version,
        pool_blocks=loaded.pool_blocks if pool_blocks is None else _pool_blocks(pool_blocks),
        concurrency=concurrency or loaded.concurrency,
        outputs=loaded.outputs if outputs is None else outputs,
    )
    result = _run(question, loaded)
    if as_json_text:
        print(json.dumps({**as_json(result, per_request), **_about(question, loaded)}))
    else:
        print_table(result, {**_about(question, loaded), "source": loaded.name}, per_request)


def _run(question: _Question, source: Source) -> SimulationResult:
    with progress_over(f"replaying {source.name}", len(source.rows)) as on_row:
        result = _replay(question, source).run(source.rows, on_row)
    if not result.served:
        raise UsageError(
            f"no request of {source.name} fits: line {result.rejected[0].line} {result.rejected[0].reason}; "
            "give more --pool-blocks."
        )
    result.rejected = sorted([*source.rejected, *result.rejected], key=lambda finding: finding.line)
    return result


def _replay(question: _Question, source: Source) -> VllmReplay | LruReplay:
    if question.rules == "vllm":
        settings = VllmReplaySettings(
            rules=rules_of_version(question.version),
            block_size=source.block_size,
            pool_blocks=question.pool_blocks,
            concurrency=question.concurrency,
            outputs=question.outputs,
        )
        isolating = any(row.request.adapter or row.request.cache_salt for row in source.rows)
        return VllmReplay(settings, isolating)
    refresh: Literal["tail_first", "head_first"] = "tail_first" if question.rules == "lru" else "head_first"
    return LruReplay(source.block_size, question.pool_blocks, refresh)


def _about(question: _Question, source: Source) -> dict[str, Any]:
    """The effective settings, beside the results in the JSON form."""
    return {
        "rules": question.rules,
        "version": question.version if question.rules == "vllm" else None,
        "block_size": source.block_size,
        "pool_blocks": question.pool_blocks,
        "concurrency": question.concurrency,
        "outputs": question.outputs,
        "format": source.format,
        "duration_s": source.duration_s,
        "sessions": [list(session) for session in source.sessions],
        "warnings": [{"line": finding.line, "reason": finding.reason} for finding in source.warnings],
    }


def _check_rules(rules: str, version: str) -> None:
    if rules not in RULES:
        raise UsageError(f"there are no rules '{rules}'; the rules are {', '.join(RULES)}.")
    try:
        rules_of_version(version)
    except ValueError as error:
        raise UsageError(f"--version: {error}.") from None


def _pool_blocks(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
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
