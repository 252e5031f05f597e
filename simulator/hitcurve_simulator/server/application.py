"""One simulated engine as an aiohttp application."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from hitcurve.hashing import none_hash
from hitcurve_simulator.server.adapters import Adapters
from hitcurve_simulator.server.admin import AdminApi
from hitcurve_simulator.server.chat import ChatApi
from hitcurve_simulator.server.clock import Clock, RealClock
from hitcurve_simulator.server.completions import CompletionsApi
from hitcurve_simulator.server.faults import find_fault
from hitcurve_simulator.server.faults.swapped_pages import shows_page_of
from hitcurve_simulator.server.generation import Generator
from hitcurve_simulator.server.http_replies import errors_as_json
from hitcurve_simulator.server.serving import Serving
from hitcurve_simulator.server.settings import EngineSettings
from hitcurve_simulator.server.tokenization import TokenizeApi
from hitcurve_simulator.vllm import RequestState, Scheduler, SchedulerSettings
from hitcurve_simulator.vllm.block_keys import VllmHasher

__all__ = ["SERVING", "SchedulerBuilder", "build_application", "build_scheduler"]

SchedulerBuilder = Callable[[EngineSettings, Callable[[RequestState], int]], Scheduler]

SERVING = web.AppKey("serving", Serving)
_HASH_ALGORITHM = "sha256"
_MOST_BODY_BYTES = 64 * 1024 * 1024


def build_scheduler(settings: EngineSettings, next_token: Callable[[RequestState], int]) -> Scheduler:
    """The vLLM rules of the settings' version, with ``next_token`` as the model."""
    manager = find_fault(settings.fault).manager(
        settings.num_blocks,
        settings.block_size,
        settings.rules,
        VllmHasher(_HASH_ALGORITHM, none_hash(_HASH_ALGORITHM)),
        enable_caching=settings.enable_prefix_caching,
    )
    limits = SchedulerSettings(
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_num_seqs=settings.max_num_seqs,
        max_model_len=settings.max_model_len,
        max_adapters=settings.max_loras or None,
    )
    return Scheduler(manager, limits, next_token)


def build_application(
    settings: EngineSettings,
    clock: Clock | None = None,
    scheduler_builder: SchedulerBuilder = build_scheduler,
) -> web.Application:
    """Application with its engine loop, which runs while the application does.

    ``scheduler_builder`` may build other rules, for engines with a fault planted in them.
    """
    fault = find_fault(settings.fault)
    middlewares: list[Any] = [errors_as_json]
    if fault.needs_peer:
        middlewares.append(shows_page_of(settings.fault_peer))
    application = web.Application(middlewares=middlewares, client_max_size=_MOST_BODY_BYTES)
    clock = clock or RealClock()
    metrics = fault.metrics(settings, clock)
    engine = fault.engine(
        lambda next_token: scheduler_builder(settings, next_token), settings.time, clock, metrics
    )
    hasher = engine.scheduler.manager.hasher
    if settings.patched and isinstance(hasher, VllmHasher):
        labels = {"engine": "0", "model_name": settings.model, "fingerprint": hasher.root_fingerprint}
        metrics.page.add_info("hitcurve_engine_hash_root_info", "Where block hashes begin.", labels)
    serving = Serving(settings, clock, engine, metrics, Adapters(settings.model), Generator(engine, settings))
    application[SERVING] = serving
    application.cleanup_ctx.append(_engine_loop)
    _add_routes(application, serving)
    return application


async def _engine_loop(application: web.Application) -> AsyncIterator[None]:
    loop = asyncio.create_task(application[SERVING].engine.run())
    yield
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


def _add_routes(application: web.Application, serving: Serving) -> None:
    router, admin = application.router, AdminApi(serving)
    router.add_post("/v1/completions", CompletionsApi(serving).post)
    router.add_post("/v1/chat/completions", ChatApi(serving).post)
    router.add_post("/tokenize", TokenizeApi(serving).post)
    router.add_get("/v1/models", admin.models)
    router.add_get("/health", admin.health)
    router.add_get("/ping", admin.health)
    router.add_get("/version", admin.version)
    router.add_get("/metrics", admin.metrics)
    if serving.settings.max_loras:
        router.add_post("/v1/load_lora_adapter", admin.load_adapter)
        router.add_post("/v1/unload_lora_adapter", admin.unload_adapter)
    if serving.settings.dev_mode:
        router.add_post("/reset_prefix_cache", admin.reset_prefix_cache)
