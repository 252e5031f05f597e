"""Everything beside generation: models, adapters, cache reset, health, version, metrics."""

import uuid
from typing import Any

from aiohttp import web

from hitcurve_simulator.server.api_error import ApiError, bad_body
from hitcurve_simulator.server.engine import EngineFailed
from hitcurve_simulator.server.http_replies import json_reply, read_body
from hitcurve_simulator.server.request_body import parse_boolean
from hitcurve_simulator.server.serving import Serving

__all__ = ["AdminApi"]


class AdminApi:
    """Endpoints of whoever runs the engine."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def health(self, request: web.Request) -> web.Response:
        """200 with an empty body; 503 once the engine loop has ended."""
        return web.Response(status=503 if self._serving.engine.failed else 200)

    async def version(self, request: web.Request) -> web.Response:
        return json_reply({"version": self._serving.settings.version})

    async def metrics(self, request: web.Request) -> web.Response:
        serving = self._serving
        page, content_type = serving.metrics.render(serving.engine.scheduler)
        return web.Response(body=page, headers={"Content-Type": content_type})

    async def models(self, request: web.Request) -> web.Response:
        """The base model, then the adapters with it as their parent."""
        settings, adapters = self._serving.settings, self._serving.adapters
        cards = [self._card(settings.model, settings.model, None, settings.max_model_len)]
        cards += [self._card(adapter.name, adapter.path, settings.model, None) for adapter in adapters]
        return json_reply({"object": "list", "data": cards})

    async def load_adapter(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        name, path = body.required_text("lora_name"), body.required_text("lora_path")
        self._serving.adapters.load(name, path, in_place=body.boolean("load_inplace"))
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def unload_adapter(self, request: web.Request) -> web.Response:
        name = (await read_body(request)).required_text("lora_name")
        self._serving.adapters.unload(name)
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    async def reset_prefix_cache(self, request: web.Request) -> web.Response:
        """Always 200 for a well-formed request: whether it worked stands in the body, if anywhere."""
        preempt = self._flag(request, "reset_running_requests")
        self._flag(request, "reset_external")
        try:
            done = await self._serving.engine.reset_prefix_cache(preempt)
        except EngineFailed:
            raise ApiError(500, "InternalServerError", "The engine failed.") from None
        if not self._serving.settings.reset_replies_json:
            return web.Response()
        return json_reply({"success": done})

    def _flag(self, request: web.Request, name: str) -> bool:
        value = parse_boolean(request.query.get(name, "false"))
        if value is None:
            raise bad_body(f"query.{name}", f"{name} must be true or false.")
        return value

    def _card(self, name: str, root: str, parent: str | None, max_model_len: int | None) -> dict[str, Any]:
        created = int(self._serving.clock.wall())
        permission = {
            "id": f"modelperm-{uuid.uuid4().hex[:16]}",
            "object": "model_permission",
            "created": created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": max_model_len,
            "permission": [permission],
        }
