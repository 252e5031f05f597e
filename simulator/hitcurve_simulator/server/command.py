"""``hitcurve engine``: a simulated engine that listens on a port."""

import asyncio
import functools
import signal
from collections.abc import Callable
from typing import Annotated, Any

import typer

from hitcurve.address import base_address
from hitcurve.errors import UsageError
from hitcurve_simulator.server.application import build_application
from hitcurve_simulator.server.faults import FAULTS, find_fault
from hitcurve_simulator.server.running import serve
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.time_model import TimeModel
from hitcurve_simulator.vllm import DEFAULT_VERSION

__all__ = ["app"]

INTERRUPTED_EXIT = 130
RULES = ("vllm",)
DEFAULT_POOL_BLOCKS = 4096

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_EPILOG = (
    "Example:  hitcurve engine --port 8000 --block-size 32 --pool-blocks 128 --max-model-len 4096  |  "
    "then:  curl -s localhost:8000/v1/completions -H 'Content-Type: application/json' "
    """-d '{"prompt": "hello", "max_tokens": 8}'"""
)
_COSTS = TimeModel()


def _panel(title: str) -> Callable[..., Any]:
    """Options of one section of the help."""
    return functools.partial(typer.Option, rich_help_panel=title)


_server, _cache, _scheduler, _model = map(_panel, ("Server", "Cache", "Scheduler", "Model and time"))
_defect = _panel("Planted defects, to test tests with")


@app.command(epilog=_EPILOG)
def engine(
    host: Annotated[str, _server(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, _server(min=0, max=65535, help="Port; 0 takes a free one and prints it.")] = 8000,
    model: Annotated[str, _server(help="Name of the served model.")] = "simulated",
    dev_mode: Annotated[bool, _server(help="Offer POST /reset_prefix_cache.")] = True,
    patched: Annotated[
        bool, _server("--patched", help="Also count resets and evictions, as our vLLM plugin does.")
    ] = False,
    rules: Annotated[str, _cache(help="Cache rules; there is 'vllm'.")] = "vllm",
    version: Annotated[
        str, _cache(help="vLLM version whose rules and metric names apply: 0.8.x, or 0.12 and later.")
    ] = DEFAULT_VERSION,
    block_size: Annotated[int, _cache(min=1, help="Tokens in a KV block.")] = 16,
    pool_blocks: Annotated[
        int | None, _cache(min=1, help=f"Usable KV blocks; {DEFAULT_POOL_BLOCKS} where nothing is said.")
    ] = None,
    num_gpu_blocks_override: Annotated[
        int | None,
        _cache(min=1, help="The same as vLLM counts it: block 0 is reserved, one fewer is usable."),
    ] = None,
    enable_prefix_caching: Annotated[bool, _cache(help="Look up and keep prefixes.")] = True,
    max_num_seqs: Annotated[int, _scheduler(min=1, help="Requests that run at once.")] = 128,
    max_num_batched_tokens: Annotated[int, _scheduler(min=1, help="Token budget of a step.")] = 2048,
    max_model_len: Annotated[int, _scheduler(min=1, help="Longest prompt plus output in tokens.")] = 8192,
    max_loras: Annotated[int, _scheduler(min=0, help="Adapters in one batch; 0 serves none.")] = 4,
    seed: Annotated[int, _model(help="Seed of the replies.")] = 0,
    reply_tokens: Annotated[
        int, _model(min=1, help="Mean length of a reply that no limit ends; a token is one byte.")
    ] = 256,
    prefill_us_per_token: Annotated[
        float, _model(min=0, help="Cost of one uncached token in microseconds.")
    ] = _COSTS.prefill_us_per_token,
    attention_ns_per_pair: Annotated[
        float, _model(min=0, help="Cost of one token attending to another, in nanoseconds.")
    ] = _COSTS.attention_ns_per_pair,
    decode_ms_per_step: Annotated[
        float, _model(min=0, help="Fixed cost of a step in milliseconds.")
    ] = _COSTS.decode_ms_per_step,
    speed: Annotated[float, _model(min=0.001, help="Everything that many times as fast.")] = _COSTS.speed,
    fault: Annotated[str, _defect(help="Plant this defect; --list-faults names all.")] = "",
    fault_peer: Annotated[str, _defect(metavar="URL", help="The other engine, for a defect that takes two.")] = "",
    list_faults: Annotated[bool, _defect("--list-faults", help="Print all defects, and end.")] = False,
) -> None:
    """Serve a simulated LLM engine: OpenAI's completions and chat, /metrics, adapters, cache reset.

    The prefix cache and the scheduler follow vLLM's rules; the model is a word generator, its time is modelled.
    One byte of text is one token. Ends on SIGTERM (exit 0) or Ctrl-C (exit 130).
    """
    if list_faults:
        for one in FAULTS.values():
            print(f"{one.name:<26}{one.defect}")
        return
    if find_fault(fault).needs_peer != bool(fault_peer):
        raise UsageError("--fault-peer names the other engine, for the fault 'counters-swapped' and for no other.")
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
        fault=fault,
        fault_peer=base_address(fault_peer) if fault_peer else "",
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
    return (DEFAULT_POOL_BLOCKS if pool_blocks is None else pool_blocks) + 1
