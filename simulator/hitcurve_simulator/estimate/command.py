"""``hitcurve estimate``: the command line."""

import json
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import typer

from hitcurve.errors import UsageError
from hitcurve_simulator.estimate.model_memory import KV_TYPES, KvMemory, kv_memory
from hitcurve_simulator.simulate.progress import progress_over
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.parse_row import Turns
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name

__all__ = ["app"]

SPLIT_NAMES = ("adapter", "salt", "tenant", "session")

MOST_ROWS_FOR_BREAKS = 5_000

Word = TypeVar("Word", bound=str)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    epilog="Examples: 'hitcurve estimate trace.jsonl --pool-blocks 5859 --html curve.html', "
    "'zstd -dc log.jsonl.zst | hitcurve estimate - --block-sizes 16,32,64 --split tenant'."
)
def estimate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Traces, folders of them, or - (stdin).")],
    pool_blocks: Annotated[
        list[int] | None, typer.Option(min=1, help="Usable blocks to give exact values for; may be repeated.")
    ] = None,
    pool_gib: Annotated[
        list[float] | None, typer.Option(min=0, help="The same in GiB of KV cache; needs --model-config.")
    ] = None,
    model_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="config.json of the model, for KV bytes per token.")
    ] = None,
    kv_type: Annotated[
        str | None, typer.Option(help=f"KV cache type: {', '.join(KV_TYPES)} (default: the model's).")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Tokens per block or hash id (default: the format's).")
    ] = None,
    block_sizes: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Compare block sizes; for hash ids multiples of theirs.")
    ] = None,
    split: Annotated[str | None, typer.Option(help=f"Rates by {', '.join(SPLIT_NAMES)}.")] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Compare routing policies over this many replicas.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random routing.")] = 0,
    breaks: Annotated[
        bool | None,
        typer.Option(
            "--breaks/--no-breaks",
            help="Where reuse breaks and what a fix gains (default: for up to 5,000 rows of text).",
        ),
    ] = None,
    warm_up: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of the requests that only fill the pool, uncounted.")
    ] = 0.0,
    outputs: Annotated[bool, typer.Option("--outputs", help="Outputs stay in the pool (engine-like).")] = False,
    tokenizer: Annotated[
        str, typer.Option(metavar="pieces|bytes|FILE", help="How text becomes tokens; FILE: a tokenizer.json.")
    ] = "pieces",
    ids: Annotated[
        str, typer.Option(metavar="file|shared", help="Whether hash ids of several files name the same blocks.")
    ] = "file",
    start_every: Annotated[
        float | None, typer.Option(min=0, help="Seconds from file to file (default: 60 for agent sessions).")
    ] = None,
    time_unit: Annotated[str | None, typer.Option(metavar="ms|s", help="Unit of timestamps.")] = None,
    turns: Annotated[
        str, typer.Option(metavar="cumulative|delta", help="Whether input_length covers the whole chat so far.")
    ] = "cumulative",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first line that is rejected.")] = False,
    every: Annotated[bool, typer.Option("--all-sizes", help="The curve at every size where it bends.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the curve as one HTML page.")] = None,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The best hit rate that recorded traffic allows, and the hit rate of every pool size, exactly, in one pass.

    Formats: Mooncake, Bailian, sessions of kv-cache-tester, ShareGPT, logs of OpenAI requests, token ids; each
    plain or gzip. Rows that cannot be used are named and counted. Two definitions of a hit are given side by side.
    """
    # NumPy comes only now, so that --help is fast.
    from hitcurve_simulator.estimate.answer import answer
    from hitcurve_simulator.estimate.estimate import Estimator
    from hitcurve_simulator.estimate.question import Question
    from hitcurve_simulator.estimate.traffic import IdScope, Reading, load_traffic

    memory = None if model_config is None else kv_memory(model_config, kv_type)
    reading = Reading(
        block_size=block_size,
        time_unit=None if time_unit is None else _one_of("--time-unit", time_unit, get_args(TimeUnit)),
        turns=_one_of("--turns", turns, get_args(Turns)),
        strict=strict,
        ids=_one_of("--ids", ids, get_args(IdScope)),
        start_every_s=start_every,
        tokenizer=tokenizer_by_name(tokenizer),
    )
    if split is not None:
        _one_of("--split", split, SPLIT_NAMES)
    with progress_over(f"reading {', '.join(files[:3])}") as on_line:
        traffic = load_traffic(files, reading, on_line)
    has_text = traffic.has_text
    if breaks and not has_text:
        raise UsageError("--breaks needs text (prompt, messages or conversations), and no row has any.")
    question = Question(
        pools=_pools(pool_blocks or [], pool_gib or [], memory, traffic.block_size),
        memory=memory,
        block_sizes=_block_sizes(block_sizes, traffic.block_size, traffic.has_ids),
        split=split,
        replicas=replicas,
        seed=seed,
        breaks=has_text and len(traffic.rows) <= MOST_ROWS_FOR_BREAKS if breaks is None else breaks,
        every=every,
    )
    estimator = Estimator(traffic, outputs, warm_up)
    found = answer(estimator, question)
    if html is not None:
        from hitcurve_simulator.estimate.html_page import write_page

        write_page(html, found, estimator.curves, question.pools)
    if as_json_text:
        print(json.dumps(found))
    else:
        from hitcurve_simulator.estimate.table import print_answer

        print_answer(found)


def _pools(blocks: list[int], gib: list[float], memory: KvMemory | None, block_size: int) -> tuple[int, ...]:
    if gib and memory is None:
        raise UsageError(
            "--pool-gib needs the size of a token; give --model-config FILE, the model's config.json."
        )
    sizes = list(blocks)
    for size in gib if memory is not None else ():
        fits = memory.blocks_in(size, block_size) if memory is not None else 0
        if fits < 1:
            raise UsageError(f"--pool-gib {size:g} holds no block of {block_size} tokens; give more.")
        sizes.append(fits)
    return tuple(dict.fromkeys(sizes))


def _block_sizes(text: str | None, base: int, has_ids: bool) -> tuple[int, ...]:
    if text is None:
        return ()
    sizes = []
    for word in text.split(","):
        if not word.strip().isascii() or not word.strip().isdigit() or int(word) < 1:
            raise UsageError(f"--block-sizes has '{word}'; give numbers of tokens, such as 16,32,64.")
        if has_ids and int(word) % base:
            raise UsageError(
                f"--block-sizes has {word}, but hash ids of {base} tokens give only multiples of {base}."
            )
        sizes.append(int(word))
    return tuple(sizes)


def _one_of(option: str, text: str, allowed: tuple[Word, ...]) -> Word:
    for word in allowed:
        if word == text:
            return word
    raise UsageError(f"{option} is '{text}'; give {' or '.join(allowed)}.")
