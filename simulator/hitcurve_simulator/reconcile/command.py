"""``hitcurve reconcile``: the command line."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hitcurve.errors import EnvironmentFailed, UsageError
from hitcurve.progress import progress_over
from hitcurve_simulator.reconcile.answer import answer
from hitcurve_simulator.reconcile.engine_tokenizer import EngineTokenizer
from hitcurve_simulator.reconcile.expected import visits_per_log
from hitcurve_simulator.reconcile.measured import Measured, measured_by_pages
from hitcurve_simulator.reconcile.reconcile import Window, reconcile
from hitcurve_simulator.reconcile.request_log import read_logs
from hitcurve_simulator.reconcile.sources import (
    Counted,
    engine_version,
    live_page,
    metrics_url,
    page_file,
    quiet_page,
    recorded,
)
from hitcurve_simulator.simulate.choice import Choice, settled_version
from hitcurve_simulator.traces.text import Encoder
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name

__all__ = ["app"]

RULES = ("vllm", "vllm-v0", "sglang", "trtllm")
UNLIMITED = "unlimited"
DEFAULT_BLOCK_SIZES = {"vllm": 16, "vllm-v0": 16, "sglang": 1, "trtllm": 32}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the options say about the engine; None is left to its page."""

    rules: str | None
    version: str | None
    block_size: int | None
    pool_blocks: str | None


@app.command(
    name="reconcile",
    epilog="Examples: 'hitcurve reconcile --metrics http://127.0.0.1:8000/metrics --log requests.jsonl' (the "
    "engine served nothing else since its start), 'hitcurve reconcile --before a.prom --after b.prom "
    "--log requests.jsonl --tokenizer bytes', 'hitcurve reconcile --metrics URL --log run/prompts.jsonl -- "
    "hitcurve load unique --host HOST --out run --log-prompts'.",
)
def reconcile_command(
    log: Annotated[
        list[Path], typer.Option(metavar="FILE", help="Log of the requests; - is stdin; may be repeated.")
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]", help="Makes the traffic: run between two readings of --metrics."
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="URL", help="The engine's /metrics, read now (after a COMMAND).")
    ] = None,
    before: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its page from before the traffic (default: its start).")
    ] = None,
    after: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its page from after the traffic, in place of --metrics.")
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option("--recorded", metavar="DIR", help="Recorded pages (scrapes.json) or a run folder instead."),
    ] = None,
    warm: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Log of what came before and filled the cache.")
    ] = None,
    rules: Annotated[
        str | None, typer.Option(help=f"Cache rules: {', '.join(RULES)} (default: by the page).")
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="vLLM's version (default: as the engine says, else the newest known).")
    ] = None,
    block_size: Annotated[int | None, typer.Option(min=1, help="Tokens per block (default: by the page).")] = None,
    pool_blocks: Annotated[
        str | None, typer.Option(metavar="N|unlimited", help="Usable blocks (default: by the page).")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Requests at once (default: by the times of the log, else 1).")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="engine|pieces|bytes|FILE",
            help="How text becomes tokens; engine: its own, asked at /tokenize (default with --metrics).",
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, metavar="POINTS", help="How far prediction and measurement may lie apart.")
    ] = 1.0,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the rows as one HTML page.")] = None,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ceiling, prediction and measurement of the same traffic on one row, and what lies between them.

    Ceiling: an unlimited cache under the engine's rules. Prediction: its real pool. Measurement: its counters. The
    log brings the requests: bodies of OpenAI's API or token ids, with usage and times where known. Exit code 0
    only where prediction and measurement agree; failed requests or foreign traffic prove nothing (invalid).
    """
    url = None if metrics is None else metrics_url(metrics)
    counted, problem = _counted(url, before, after, recording, command or [])
    wanted = _Wanted(rules, version, block_size, pool_blocks)
    told = None if url is None or version is not None else engine_version(url)
    choices = [_choice(one, wanted, told) for one in counted.measured]
    size = next((choice.block_size for choice in choices if choice is not None), 16)
    words = _tokenizer(tokenizer, url)
    with progress_over("reading the log") as on_line:
        requests = read_logs(log, size, words, on_line)
        before_it = read_logs(warm, size, words, on_line) if warm else None
    total = visits_per_log(concurrency) * len(requests.requests)
    with progress_over("replaying the log", total) as on_visit:
        found = reconcile(
            requests, counted.measured, choices, counted.window, before_it, concurrency, tolerance, on_visit
        )
    if problem is not None:
        found.invalid.append(problem)
    found.notes.extend(_other_rules(choices, told))
    values = answer(found, requests)
    if html is not None:
        from hitcurve_simulator.reconcile.html_page import write_page

        write_page(html, values)
    if as_json_text:
        print(json.dumps(values))
    else:
        from hitcurve_simulator.reconcile.table import print_answer

        print_answer(values)
    if found.verdict != "ok":
        raise typer.Exit(1)


def _counted(
    url: str | None, before: Path | None, after: Path | None, recording: Path | None, command: list[str]
) -> tuple[Counted, str | None]:
    """What was counted, and why it may prove nothing."""
    if recording is not None:
        if url is not None or before is not None or after is not None or command:
            raise UsageError("--recorded has both readings; leave out --metrics, --before, --after and a command.")
        return recorded(recording), None
    if (url is None) == (after is None):
        raise UsageError("give either --metrics URL (read now) or --after FILE (a page from after the traffic).")
    if command:
        if url is None or before is not None:
            raise UsageError("a command is run between two readings of --metrics; leave out --before and --after.")
        first, from_s = live_page(url)
        problem = _run(command)
        last, to_s = quiet_page(url)
        return Counted(measured_by_pages([first, last]), Window(from_s, to_s)), problem
    if url is None:
        assert after is not None
        last, end_s = page_file(after), None
    else:
        last, end_s = live_page(url)
    pages = [last] if before is None else [page_file(before), last]
    return Counted(measured_by_pages(pages, since_start=before is None), Window(None, end_s)), None


def _run(command: list[str]) -> str | None:
    """Run it to its end; what speaks against its traffic."""
    try:
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    except OSError as error:
        raise EnvironmentFailed(f"'{command[0]}' cannot be run: {error.strerror}.") from None
    return f"the command '{command[0]}' ended with exit code {done.returncode}" if done.returncode else None


def _choice(measured: Measured, wanted: _Wanted, told: str | None) -> Choice | None:
    """Rules and pool of an engine, whose own word on its version is ``told``; None where its pool is not known."""
    rules = wanted.rules or measured.rules or "vllm"
    if rules not in RULES:
        raise UsageError(f"--rules is '{rules}'; give one of {', '.join(RULES)}.")
    try:
        version = settled_version(rules, wanted.version or (told if rules == "vllm" else None))
    except UsageError:
        if wanted.version is not None:
            raise
        version = settled_version(rules, None)
    size = wanted.block_size or measured.block_size or DEFAULT_BLOCK_SIZES[rules]
    if wanted.pool_blocks is not None:
        pool = _pool(wanted.pool_blocks)
    elif measured.pool_blocks is None:
        return None
    else:
        # vLLM counts the block that it reserves as well.
        pool = measured.pool_blocks - 1 if rules == "vllm" else measured.pool_blocks
    return Choice(rules=rules, version=version, block_size=size, pool_blocks=pool, concurrency=1, outputs=True)


def _other_rules(choices: Sequence[Choice | None], told: str | None) -> list[str]:
    """A note where no rules of the engine's own version are known."""
    used = next((one.version for one in choices if one is not None and one.rules == "vllm"), None)
    if told is None or used in (None, told):
        return []
    return [f"there are no rules for vLLM {told}, those of {used} were used; --version takes others"]


def _pool(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"--pool-blocks is '{text}'; give a number of blocks from 1 on, or '{UNLIMITED}'.")
    return int(text)


def _tokenizer(name: str | None, url: str | None) -> Encoder:
    if name == "engine" or (name is None and url is not None):
        if url is None:
            raise UsageError("--tokenizer engine asks the engine; give --metrics URL, or another tokenizer.")
        return EngineTokenizer(url)
    return tokenizer_by_name(name or "pieces")
