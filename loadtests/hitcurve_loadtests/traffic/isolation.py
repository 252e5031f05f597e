"""Whose request it is: adapters and tenants laid over any traffic. Engines share no block between either."""

from dataclasses import dataclass, replace
from typing import Literal

from hitcurve_loadtests.prompts import Prompt
from hitcurve_loadtests.texts import Texts
from hitcurve_loadtests.traffic.draws import Popularity
from hitcurve_loadtests.traffic.traffic import Traffic

__all__ = ["Isolated", "Mix"]


@dataclass(frozen=True, slots=True)
class Mix:
    """How many adapters or tenants, how unevenly they ask, and whether a group or chat stays with one of them."""

    count: int
    zipf: float = 0.0
    each: Literal["request", "group"] = "request"


class Isolated:
    """The same traffic with an adapter (by its rank among the models named) and a tenant (a cache salt) each."""

    def __init__(self, traffic: Traffic, adapters: Mix | None, tenants: Mix | None, texts: Texts) -> None:
        self._traffic = traffic
        self._texts = texts
        self._adapters = None if adapters is None else _Draw(adapters, texts, "adapters")
        self._tenants = None if tenants is None else _Draw(tenants, texts, "tenants")

    def next(self) -> Prompt | None:
        prompt = self._traffic.next()
        if prompt is None:
            return None
        if self._adapters is not None:
            prompt = replace(prompt, model_rank=self._adapters.of(prompt))
        if self._tenants is not None:
            prompt = replace(prompt, cache_salt=f"tenant-{self._tenants.of(prompt)}-{self._texts.seed}")
        return prompt

    def answered(self, prompt: Prompt, reply: str | None) -> None:
        self._traffic.answered(prompt, reply)


class _Draw:
    def __init__(self, mix: Mix, texts: Texts, name: str) -> None:
        self._mix = mix
        self._name = name
        self._texts = texts
        self._random = texts.random(name)
        self._popularity = Popularity(mix.count, mix.zipf)

    def of(self, prompt: Prompt) -> int:
        """Chats always stay with one: their history would be of no use to another."""
        if self._mix.each == "group" or prompt.session is not None:
            return self._popularity.draw(self._texts.random(f"{self._name} {prompt.group}"))
        return self._popularity.draw(self._random)
