"""``hitcurve estimate``: the command line."""

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import typer

from hitcurve.errors import UsageError
from hitcurve.progress import progress_over
from hitcurve_simulator.estimate.model_memory import KV_TYPES, KvMemory, kv_memory
from hitcurve_simulator.estimate.pool_sizes import GpuMemory, gpu_memory, pool_sizes
from hitcurve_simulator.traces.formats import TimeUnit
from hitcurve_simulator.traces.parse_row import Turns
from hitcurve_simulator.traces.tokenizers import tokenizer_by_name

if TYPE_CHECKING:
    from hitcurve_simulator.estimate.traffic import Reading
    from hitcurve_simulator.sharded.workers import Workers

__all__ = ["app"]

SPLIT_NAMES = ("adapter", "salt", "tenant", "session")

MOST_ROWS_FOR_BREAKS = 5_000

# Far beyond any machine, and still exact where places are counted in 64 bits.
MOST_BLOCKS = 10**12
MOST_GIB = 10**9
MOST_TOKENS_OF_A_BLOCK = 10**9

Word = TypeVar("Word", bound=str)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    epilog="Examples: 'hitcurve estimate trace.jsonl --pool-blocks 5859 --html curve.html', "
    "'hitcurve estimate log.jsonl.zst --model-config config.json --gpu-memory 80GiB --weights 15GiB', "
    "'zcat huge.gz | hitcurve estimate - --sample 0.01'."
)
def estimate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Traces, folders of them, or - (stdin).")],
    pool_blocks: Annotated[
        list[int] | None,
        typer.Option(min=1, max=MOST_BLOCKS, help="Usable blocks to give exact values for; may be repeated."),
    ] = None,
    pool_gib: Annotated[
        list[float] | None,
        typer.Option(min=0, max=MOST_GIB, help="The same in GiB of KV cache; needs --model-config."),
    ] = None,
    model_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="config.json of the model, for KV bytes per token.")
    ] = None,
    gpu_memory_size: Annotated[
        str | None, typer.Option("--gpu-memory", metavar="SIZE", help="Memory of one GPU, such as 80GiB.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Weights on all GPUs together, such as 15GiB.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option(min=0.01, max=1, help="Share of it that the engine may use (default: 0.9).")
    ] = None,
    other_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Activations, graphs and the like on all GPUs.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that share one model (tensor parallelism).")] = 1,
    kv_type: Annotated[
        str | None, typer.Option(help=f"KV cache type: {', '.join(KV_TYPES)} (default: the model's).")
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_TOKENS_OF_A_BLOCK, help="Tokens per block or hash id (default: the format's)."
        ),
    ] = None,
    block_sizes: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Compare block sizes; for hash ids multiples of theirs.")
    ] = None,
    split: Annotated[str | None, typer.Option(help=f"Rates by {', '.join(SPLIT_NAMES)}.")] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Compare routing policies over this many replicas.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random routing and of the sample.")] = 0,
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
        str,
        typer.Option(
            metavar="pieces|bytes|MODEL", help="How text becomes tokens; MODEL: its folder, file or name."
        ),
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
    sample: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, metavar="SHARE", help="Read only this share of the prefix trees; errors are given."
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="Where the work is done; ray: in shards, on a Ray cluster.")
    ] = "local",
    ray_address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A running Ray cluster (default: one made here).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Shards at once with --engine ray (default: all processors).")
    ] = None,
    every: Annotated[bool, typer.Option("--all-sizes", help="The curve at every size where it bends.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the curve as one HTML page.")] = None,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The best hit rate that recorded traffic allows, and the hit rate of every pool size, exactly, in one pass.

    Formats: Mooncake, Bailian, sessions of kv-cache-tester, ShareGPT, logs of OpenAI requests, KV events, token
    ids; each plain, gzip or zstd. Rows that cannot be used are named and counted. Two definitions of a hit are
    given side by side.
    """
    # NumPy comes only now, so that --help is fast.
    from hitcurve_simulator.estimate.answer import answer
    from hitcurve_simulator.estimate.estimate import Estimator
    from hitcurve_simulator.estimate.question import Question
    from hitcurve_simulator.estimate.traffic import IdScope, Reading, load_traffic

    memory = None if model_config is None else kv_memory(model_config, kv_type, gpus)
    gpu = gpu_memory(gpu_memory_size, weights, gpu_memory_utilization, other_memory, gpus)
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
    if sample is not None:
        asked = (block_sizes, split, replicas, breaks, warm_up, every, engine != "local")
        if any(asked):
            raise UsageError(
                "--sample answers ceiling and curve; leave out --block-sizes, --split, --replicas, --breaks, "
                "--warm-up, --all-sizes and --engine."
            )
        pools = (pool_blocks or [], pool_gib or [], gpu, memory)
        _sampled(files, reading, sample, seed, outputs, pools, html, as_json_text)
        return
    if engine == "ray" and (block_sizes or breaks):
        raise UsageError("--engine ray keeps no prompts; leave out --block-sizes and --breaks.")
    with _crew(engine, ray_address, workers) as crew:
        with progress_over(f"reading {', '.join(files[:3])}") as on_line:
            if crew is None:
                estimator = Estimator(load_traffic(files, reading, on_line), outputs, warm_up)
            else:
                from hitcurve_simulator.sharded.sharded_estimate import sharded_estimator

                estimator = sharded_estimator(files, reading, tokenizer, crew, outputs, warm_up, on_line)
        traffic = estimator.traffic
        has_text = traffic.has_text and crew is None
        if breaks and not has_text:
            raise UsageError("--breaks needs text (prompt, messages or conversations), and no row has any.")
        question = Question(
            pools=pool_sizes(pool_blocks or [], pool_gib or [], gpu, memory, traffic.block_size),
            memory=memory,
            block_sizes=_block_sizes(block_sizes, traffic.block_size, traffic.has_ids),
            split=split,
            replicas=replicas,
            seed=seed,
            breaks=has_text and len(traffic.rows) <= MOST_ROWS_FOR_BREAKS if breaks is None else breaks,
            every=every,
        )
        found = answer(estimator, question)
    if html is not None:
        from hitcurve_simulator.estimate.html_page import write_page

        write_page(html, found, estimator.curves.bound, estimator.curves.engine, question.pools)
    if as_json_text:
        print(json.dumps(found))
    else:
        from hitcurve_simulator.estimate.table import print_answer

        print_answer(found)


def _crew(engine: str, address: str | None, count: int | None) -> "AbstractContextManager[Workers | None]":
    """Who does the work; None: this process."""
    if _one_of("--engine", engine, ("local", "ray")) == "local":
        if address is not None or count is not None:
            raise UsageError("--ray-address and --workers are for --engine ray.")
        return nullcontext()
    from hitcurve_simulator.sharded.ray_workers import RayWorkers

    return RayWorkers(address, count)


def _sampled(
    files: list[str],
    reading: "Reading",
    share: float,
    seed: int,
    outputs: bool,
    pools: tuple[list[int], list[float], GpuMemory | None, KvMemory | None],
    html: Path | None,
    as_json_text: bool,
) -> None:
    """Answer from a sample; ``pools`` in blocks, in GiB, as GPU memory, and the size of a token."""
    from hitcurve_simulator.estimate.sampled_answer import print_sampled, sampled_answer
    from hitcurve_simulator.estimate.sampled_curve import sampled_curve
    from hitcurve_simulator.estimate.sampled_traffic import sample_traffic

    with progress_over(f"reading {', '.join(files[:3])}") as on_line:
        traffic = sample_traffic(files, reading, share, seed, outputs, on_line)
    try:
        bound, engine = sampled_curve(traffic.bound), sampled_curve(traffic.engine)
    except ValueError as error:
        raise UsageError(f"--sample {share:g} is too small: {error}; give more.") from None
    sizes = pool_sizes(*pools, traffic.block_size)
    found = sampled_answer(traffic, bound, engine, sizes, pools[3])
    if html is not None:
        from hitcurve_simulator.estimate.html_page import write_page

        write_page(html, found, bound, engine, sizes)
    if as_json_text:
        print(json.dumps(found))
    else:
        print_sampled(found)


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
        if int(word) > MOST_TOKENS_OF_A_BLOCK:
            raise UsageError(f"--block-sizes has '{word}'; give at most {MOST_TOKENS_OF_A_BLOCK} tokens.")
        sizes.append(int(word))
    return tuple(sizes)


def _one_of(option: str, text: str, allowed: tuple[Word, ...]) -> Word:
    for word in allowed:
        if word == text:
            return word
    raise UsageError(f"{option} is '{text}'; give {' or '.join(allowed)}.")
