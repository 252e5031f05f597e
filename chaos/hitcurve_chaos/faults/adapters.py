"""Adapter churn: LoRA adapters are loaded, used, unloaded and loaded again under new names.

Blocks are cached per adapter (vLLM hashes the adapter's name, since 0.31 name and path), so each new name starts
cold however warm the same prompts are elsewhere. Names are new every time, since vLLM keeps the blocks of a name
that comes back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitcurve_chaos.calls import Answer, NoAnswer, Transport
from hitcurve_chaos.clock import Clock
from hitcurve_chaos.faults.fault import BeforeStep, Injection, InjectionOutcome, Undo
from hitcurve_chaos.loads import Loads, RunningLoad
from hitcurve_chaos.probe import Probe
from hitcurve_chaos.request_tail import RequestTail
from hitcurve_chaos.targets import Adapter, Target

__all__ = ["CHURN", "AdapterChurnFault", "AdapterEndpoints", "unload_all"]

CHURN = "churn"
"""Its loads are called so in ``requests.jsonl``, with a number."""

_TIMEOUT_S = 30.0
_PROBE_WORDS = 128


@dataclass(frozen=True, slots=True)
class AdapterEndpoints:
    """The engine's endpoints for adapters; vLLM has them with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING=1``."""

    target: Target
    transport: Transport

    def load(self, name: str, path: str) -> Answer:
        """Load ``path`` as ``name``; NoAnswer where the engine is silent."""
        return self._post("load", {"lora_name": name, "lora_path": path})

    def unload(self, name: str) -> Answer:
        """Unload ``name``; 404 says that it is not there."""
        return self._post("unload", {"lora_name": name})

    def listed(self, prefix: str) -> list[str]:
        """Names the engine lists that begin with ``prefix``."""
        url = f"{self.target.engine}/v1/models"
        answer = self.transport.send("GET", url, headers=self.target.headers(), timeout_s=_TIMEOUT_S)
        values = answer.json()
        if answer.status != 200 or not isinstance(values, dict):
            raise NoAnswer(f"GET {url}: {answer.said}")
        names = [str(model.get("id")) for model in values.get("data") or []]
        return [name for name in names if name.startswith(prefix)]

    def _post(self, verb: str, body: dict[str, str]) -> Answer:
        url = f"{self.target.admin_url}/v1/{verb}_lora_adapter"
        headers = self.target.admin_headers()
        return self.transport.send("POST", url, json_body=body, headers=headers, timeout_s=_TIMEOUT_S)


@dataclass(slots=True)
class AdapterChurnFault:
    """A new generation of the adapters replaces the one before ``period_s`` seconds after that was first answered.

    The time counts from an answer, since starting a generation's load takes seconds where the processor is busy.
    """

    endpoints: AdapterEndpoints
    loads: Loads
    requests: RequestTail
    probe: Probe
    clock: Clock
    adapters: Sequence[Adapter]
    prefix: str
    """Every name we load begins with it, which is how names are found after a crash."""
    period_s: float
    traffic: Mapping[str, Any]
    """Settings of the load that uses the adapters."""
    lasts_s: float
    """A load ends by itself after this time, should nobody be left to end it."""
    generations: int = field(init=False, default=0)
    loaded_total: int = field(init=False, default=0)
    first_cached_tokens: int | None = field(init=False, default=None)
    """Most tokens that an adapter found cached at its first request, of a prompt the base model had cached."""
    _troubles: list[str] = field(init=False, default_factory=list)
    _held: list[str] = field(init=False, default_factory=list)
    _load: RunningLoad | None = field(init=False, default=None)
    _loaded_s: float = field(init=False, default=0.0)
    _answered_s: float | None = field(init=False, default=None)
    _prompt: str = field(init=False, default="")

    @property
    def trouble(self) -> str | None:
        """The first thing that went wrong, ``None`` when nothing did."""
        return self._troubles[0] if self._troubles else None

    def record(self) -> dict[str, Any]:
        return {"fault": "adapter_churn", "prefix": self.prefix, "adapters": [a.name for a in self.adapters]}

    def inject(self) -> Injection:
        self._prompt = self.probe.new_prompt(_PROBE_WORDS)
        self.probe.ask(self._prompt)
        refusal = self._next_generation()
        if refusal is not None:
            return refusal
        if self._load is not None:
            self._load.await_effect()
        return Injection("applied", f"{len(self._held)} adapters were loaded and are in use", self.record())

    def tick(self, before_step: BeforeStep) -> None:
        problem = self._load.problem() if self._load else None
        if problem is not None and problem not in self._troubles:
            self._troubles.append(problem)
        if not self._lived():
            return
        self._stop_load()
        for name in list(self._held):
            trouble = _unload(self.endpoints, name)
            if trouble is None:
                self._held.remove(name)
            else:
                self._troubles.append(trouble)
        before_step({"adapters": [self._name(self.generations + 1, adapter) for adapter in self.adapters]})
        refusal = self._next_generation()
        if refusal is not None:
            self._troubles.append(refusal.sentence)

    def undo(self) -> Undo:
        self._stop_load()
        undo = unload_all(self.endpoints, self.prefix, known=self._held)
        if undo.restored:
            self._held.clear()
        return undo

    def _lived(self) -> bool:
        now_s = self.clock.now()
        if self._answered_s is None:
            if not self.requests.completed_since(self._loaded_s, self._load_name):
                return False
            self._answered_s = now_s
        return now_s - self._answered_s >= self.period_s

    def _next_generation(self) -> Injection | None:
        self.generations += 1
        self._loaded_s, self._answered_s = self.clock.now(), None
        for adapter in self.adapters:
            name = self._name(self.generations, adapter)
            self._held.append(name)
            try:
                answer = self.endpoints.load(name, adapter.path)
            except NoAnswer as error:
                return Injection("failed", f"loading an adapter got no answer ({error})")
            if answer.status != 200:
                self._held.remove(name)
                return self._refusal(adapter, answer)
            self.loaded_total += 1
            self._note_first_lookup(name)
        self._load = self.loads.start(
            self._load_name,
            {**self.traffic, "model": tuple(self._held), "duration": self.lasts_s},
        )
        return None

    @property
    def _load_name(self) -> str:
        return f"{CHURN}-{self.generations}"

    def _name(self, generation: int, adapter: Adapter) -> str:
        return f"{self.prefix}{generation}-{adapter.name}"

    def _refusal(self, adapter: Adapter, answer: Answer) -> Injection:
        outcome: InjectionOutcome = "failed" if self._held else "refused"
        if not self._held and (answer.status in (404, 405) or answer.redirects):
            outcome = "unsupported"
        return Injection(
            outcome,
            f"the engine did not load adapter '{adapter.name}' from '{adapter.path}' "
            f"({answer.said}); vLLM needs --enable-lora and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, and a path it can read",
        )

    def _note_first_lookup(self, name: str) -> None:
        cached = self.probe.ask(self._prompt, model=name).cached_tokens
        if cached is not None:
            self.first_cached_tokens = max(cached, self.first_cached_tokens or 0)

    def _stop_load(self) -> None:
        if self._load is not None:
            self._load.stop()
            self._load = None


def unload_all(endpoints: AdapterEndpoints, prefix: str, *, known: Sequence[str] = ()) -> Undo:
    """Unload the ``known`` adapters and all that the engine lists under ``prefix``. Never raises NoAnswer."""
    names = list(known)
    troubles = []
    try:
        names += [name for name in endpoints.listed(prefix) if name not in names]
    except NoAnswer as error:
        troubles.append(f"the engine does not list its adapters ({error})")
    troubles += [trouble for name in names if (trouble := _unload(endpoints, name)) is not None]
    if troubles:
        return Undo(False, "; ".join(troubles), {"adapters": names})
    return Undo(True, "every adapter that was loaded is unloaded", {"adapters": names})


def _unload(endpoints: AdapterEndpoints, name: str) -> str | None:
    """What kept ``name`` from being unloaded; ``None`` when it is gone."""
    try:
        answer = endpoints.unload(name)
    except NoAnswer as error:
        return f"adapter {name} may still be loaded ({error})"
    if answer.status in (200, 404):
        return None
    return f"adapter {name} was not unloaded ({answer.said})"
