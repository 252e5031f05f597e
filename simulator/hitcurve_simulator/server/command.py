"""``hitcurve engine``: a simulated engine that listens on a port."""

import asyncio
import signal
from typing import Annotated

import typer

from hitcurve.errors import UsageError
from hitcurve_simulator.server.application import build_application
from hitcurve_simulator.server.running import serve
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.time_model import TimeModel
from hitcurve_simulator.vllm import DEFAULT_VERSION

__all__ = ["app"]

INTERRUPTED_EXIT = 130
RULES = ("vllm",)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_EPILOG = (
    "Example:  hitcurve engine --port 8000 --block-size 32 --pool-blocks 128 --max-model-len 4096  |  "
    "then:  curl -s localhost:8000/v1/completions -H 'Content-Type: application/json' "
    """-d '{"prompt": "hello", "max_tokens": 8}'"""
)


@app.command(epilog=_EPILOG)
def engine(
    rules: Annotated[str, typer.Option(help="Cache rules; there is 'vllm'.")] = "vllm",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one and prints it.")] = 8000,
    model: Annotated[str, typer.Option(help="Name of the served model.")] = "simulated",
    version: Annotated[
        str, typer.Option(help="vLLM version whose rules and metric names apply: 0.8.x, or 0.12 and later.")
    ] = DEFAULT_VERSION,
    block_size: Annotated[int, typer.Option(min=1, help="Tokens in a KV block.")] = 16,
    pool_blocks: Annotated[
        int | None, typer.Option(min=1, help="Usable KV blocks. [default: 4096]", show_default=False)
    ] = None,
    num_gpu_blocks_override: Annotated[
        int | None,
        typer.Option(min=1, help="The same counted as vLLM does: block 0 is reserved, so one fewer is usable."),
    ] = None,
    max_num_seqs: Annotated[int, typer.Option(min=1, help="Requests that run at once.")] = 128,
    max_num_batched_tokens: Annotated[int, typer.Option(min=1, help="Token budget of a step.")] = 2048,
    max_model_len: Annotated[int, typer.Option(min=1, help="Longest prompt plus output in tokens.")] = 8192,
    max_loras: Annotated[int, typer.Option(min=0, help="Adapters in one batch; 0 serves none.")] = 4,
    enable_prefix_caching: Annotated[bool, typer.Option(help="Look up and keep prefixes.")] = True,
    dev_mode: Annotated[bool, typer.Option(help="Offer POST /reset_prefix_cache.")] = True,
    patched: Annotated[
        bool, typer.Option("--patched", help="Also count resets and evictions, as our vLLM plugin does.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the replies.")] = 0,
    reply_tokens: Annotated[
        int, typer.Option(min=1, help="Mean length of a reply that no limit ends; a token is one byte.")
    ] = 256,
    prefill_us_per_token: Annotated[
        float, typer.Option(min=0, help="Cost of one uncached token in microseconds.")
    ] = TimeModel().prefill_us_per_token,
    attention_ns_per_pair: Annotated[
        float, typer.Option(min=0, help="Cost of one token attending to another, in nanoseconds.")
    ] = TimeModel().attention_ns_per_pair,
    decode_ms_per_step: Annotated[
        float, typer.Option(min=0, help="Fixed cost of a step in milliseconds.")
    ] = TimeModel().decode_ms_per_step,
    speed: Annotated[float, typer.Option(min=0.001, help="Everything that many times as fast.")] = 1.0,
) -> None:
    """Serve a simulated LLM engine: OpenAI's completions and chat, /metrics, adapters, cache reset.

    The prefix cache and the scheduler follow vLLM's rules; the model is a word generator, its time is modelled.
    One byte of text is one token. Ends on SIGTERM (exit 0) or Ctrl-C (exit 130).
    """
    if rules not in RULES:
        raise UsageError(f"--rules: there are no rules called '{rules}'; there are: {', '.join(RULES)}.")
    settings = EngineSettings(
        model=model,
        block_size=block_size,
        num_blocks=_num_blocks(pool_blocks, num_gpu_blocks_override),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        max_loras=max_loras,
        enable_prefix_caching=enable_prefix_caching,
        version=version,
        dev_mode=dev_mode,
        patched=patched,
        seed=seed,
        reply_tokens=reply_tokens,
        time=TimeModel(prefill_us_per_token, attention_ns_per_pair, decode_ms_per_step, speed),
    )
    if asyncio.run(_serve(settings, host, port)) is signal.SIGINT:
        raise typer.Exit(INTERRUPTED_EXIT)


async def _serve(settings: EngineSettings, host: str, port: int) -> signal.Signals:
    return await serve(build_application(settings), host, port, _announce)


def _announce(url: str) -> None:
    print(f"listening on {url}", flush=True)


def _num_blocks(pool_blocks: int | None, override: int | None) -> int:
    if pool_blocks is not None and override is not None:
        raise UsageError(
            "--pool-blocks and --num-gpu-blocks-override say the same in two ways; give one of them "
            "(--pool-blocks N is --num-gpu-blocks-override N+1)."
        )
    if override is not None:
        return override
    return (4096 if pool_blocks is None else pool_blocks) + 1
