"""What a target can do, found out by asking: a scenario that needs more is skipped, with the reason."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from hitcurve_chaos.calls import NoAnswer, Transport
from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.engine_counters import read_counters
from hitcurve_chaos.engine_page import page_text
from hitcurve_chaos.opened import Drivers
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.targets import Target

__all__ = ["ONE_PIXEL", "Capabilities", "Need"]

Need = Literal[
    "token_ids",
    "cached_tokens",
    "images",
    "salts",
    "prompt_logprobs",
    "counters",
    "pool_size",
    "fillable_pool",
    "reset",
    "adapters",
    "two_adapters",
    "replicas",
    "environment",
    "hash_roots",
    "exporter_installed",
    "collector",
    "pause",
    "stop",
    "kill",
    "kill_core",
    "start",
    "memory_limit",
    "cut_network",
    "replica_kill",
]
"""The last ones are what a driver can do; ``replica_kill``: kill and start another replica."""

ONE_PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNg+M8AAAICAQB7CYF4AAAAAElFTkSuQmCC"
)
"""An image of one pixel."""
_TIMEOUT_S = 10.0
_TELLS_S = 5.0
_MOST_POOL_TOKENS = 400_000
_DRIVEN = ("pause", "stop", "kill", "kill_core", "start", "memory_limit", "cut_network")
_WORDS = {
    "stop": "end",
    "kill": "kill",
    "kill_core": "kill the core of",
    "start": "start",
    "pause": "pause",
    "memory_limit": "limit the memory of",
    "cut_network": "cut off",
}


class Capabilities:
    """Asks once for each need, and only when a scenario has it."""

    def __init__(self, target: Target, transport: Transport, probe: Probe, drivers: Drivers) -> None:
        self._target = target
        self._transport = transport
        self._probe = probe
        self._drivers = drivers
        self._known: dict[Need, str | None] = {}
        self._tests: Mapping[str, Callable[[], str | None]] = {
            "token_ids": lambda: self._asks("prompts of token ids"),
            "cached_tokens": self._no_cached_tokens,
            "images": self._no_images,
            "salts": lambda: self._asks("'cache_salt'", salt="hitcurve-capability"),
            "prompt_logprobs": lambda: self._asks("'prompt_logprobs'", more={"prompt_logprobs": 0}),
            "counters": self._no_counters,
            "pool_size": self._no_pool_size,
            "fillable_pool": self._no_fillable_pool,
            "reset": lambda: self._no_route(target.reset_url(), "a reset"),
            "adapters": self._no_adapters,
            "two_adapters": self._no_two_adapters,
            "replicas": lambda: None if target.replicas else "the target names no other replica",
            "environment": self._no_environment,
            "hash_roots": self._no_hash_roots,
            "exporter_installed": _no_exporter,
            "collector": self._no_collector,
            "replica_kill": self._no_replica_kill,
        }

    def lack(self, needs: Sequence[Need]) -> str | None:
        """Why a scenario with these needs cannot run; ``None`` where it can."""
        for need in needs:
            if need not in self._known or need in _DRIVEN:
                self._known[need] = self._undriven(need) if need in _DRIVEN else self._tests[need]()
            reason = self._known[need]
            if reason is not None:
                return reason
        return None

    def has(self, need: Need) -> bool:
        return self.lack([need]) is None

    def _asks(self, what: str, *, salt: str | None = None, more: Mapping[str, object] | None = None) -> str | None:
        answer = self._probe.ask(self._probe.new_tokens(8), salt=salt, more=more)
        return None if answer.completed else f"the engine does not take {what} ({answer.reason})"

    def _no_cached_tokens(self) -> str | None:
        answer = self._probe.ask(self._probe.new_tokens(8))
        if not answer.completed:
            return f"the engine completes no request ({answer.reason})"
        if answer.cached_tokens is None:
            return "the engine tells no cached tokens; vLLM does with --enable-prompt-tokens-details"
        return None

    def _no_images(self) -> str | None:
        parts = [{"type": "image_url", "image_url": {"url": ONE_PIXEL}}, {"type": "text", "text": "?"}]
        messages = [{"role": "user", "content": parts}]
        body = {"model": self._target.model, "messages": messages, "max_tokens": 1}
        url = f"{self._target.engine}/v1/chat/completions"
        try:
            answer = self._transport.send(
                "POST", url, json_body=body, headers=self._target.headers(), timeout_s=_TIMEOUT_S
            )
        except NoAnswer as error:
            return f"the engine does not answer ({error})"
        return None if answer.status == 200 else f"the engine takes no images ({answer.said})"

    def _no_counters(self) -> str | None:
        found = read_counters(self._target)
        if found is None or found.queries is None or found.hits is None:
            return f"{self._target.engine}/metrics has no counters of query and hit tokens"
        return None

    def _no_pool_size(self) -> str | None:
        found = read_counters(self._target)
        if found is None or not found.capacity_tokens or not found.block_size:
            return f"{self._target.engine}/metrics does not tell the size of the pool"
        return None

    def _no_fillable_pool(self) -> str | None:
        reason = self._no_pool_size()
        found = None if reason else read_counters(self._target)
        if found is not None and found.capacity_tokens is not None and found.capacity_tokens > _MOST_POOL_TOKENS:
            return (
                f"the pool holds {found.capacity_tokens} tokens, and filling it would take too long; give the "
                "engine a smaller one (vLLM: --num-gpu-blocks-override)"
            )
        return reason

    def _no_route(self, url: str, what: str) -> str | None:
        """OPTIONS at a route that takes POST: 405 where it exists, 404 where it does not.

        Nothing is done by it; a GET at SGLang's ``/flush_cache`` (0.5.22) would empty the cache.
        """
        try:
            answer = self._transport.send(
                "OPTIONS", url, headers=self._target.admin_headers(), timeout_s=_TIMEOUT_S
            )
        except NoAnswer as error:
            return f"the engine does not answer ({error})"
        return f"the engine offers no route for {what} ({url}: 404)" if answer.status == 404 else None

    def _no_adapters(self) -> str | None:
        return self._no_route(f"{self._target.admin_url}/v1/load_lora_adapter", "loading adapters")

    def _no_two_adapters(self) -> str | None:
        if len(self._target.adapters) < 2:
            return "the target file lists fewer than two 'adapters'"
        return self._no_adapters()

    def _no_environment(self) -> str | None:
        for one in (self._target, *self._target.replicas):
            if self._drivers.of(one) is None:
                return f"the environment of '{one.name}' cannot be read: {self._drivers.why_none(one)}"
        return None

    def _no_hash_roots(self) -> str | None:
        """The page of a patched engine tells them; else the environment decides them."""
        if self._page_holds("\nhitcurve_engine_hash_root_info{"):
            return None
        return self._no_environment()

    def _no_collector(self) -> str | None:
        if self._target.start is not None and self._target.start.engine == "simulated":
            return "the simulated engine sends no spans"
        if self._target.collector is None:
            return "the target names no 'collector' for which a scenario may stand in"
        # The engine patch begins to tell with the first request after a start.
        answer = self._probe.ask(self._probe.new_tokens(8))
        within_s = _TELLS_S if answer.completed else 0.0
        counts = wait_until(lambda: self._page_holds("\nhitcurve_engine_spans_total"), within_s, every_s=0.2)
        return None if counts else "the engine counts no spans; it needs the engine patch, with spans on"

    def _page_holds(self, words: str) -> bool:
        return words in (page_text(self._target.engine) or "")

    def _no_replica_kill(self) -> str | None:
        for replica in self._target.replicas:
            driver = self._drivers.of(replica)
            if driver is not None and {"kill", "start"} <= driver.can:
                return None
        return "no other replica may be killed and started again"

    def _undriven(self, need: Need) -> str | None:
        driver = self._drivers.of(self._target)
        if driver is None:
            return f"nothing may {_word(need)} the engine: {self._drivers.why_none(self._target)}"
        return None if need in driver.can else f"nothing can {_word(need)} this engine"


def _no_exporter() -> str | None:
    if importlib.util.find_spec("aiohttp") is None or importlib.util.find_spec("bcrypt") is None:
        return "the exporter is not installed here; pip install 'hitcurve[exporter]'"
    return None


def _word(need: Need) -> str:
    return _WORDS[need]
