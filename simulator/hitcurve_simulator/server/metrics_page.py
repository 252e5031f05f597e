"""The /metrics page: metric families in a registry of their own, and their exposition."""

from collections.abc import Mapping, Sequence

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from hitcurve_simulator.server.metric_families import Family, token_buckets

__all__ = ["MetricsPage"]

_ENGINE = "0"


class MetricsPage:
    """Families of one engine generation, labelled ``model_name`` and ``engine``.

    A value for a family that this generation does not have is dropped, so that one recorder serves all of them.
    """

    def __init__(
        self,
        families: Sequence[Family],
        *,
        model: str,
        max_model_len: int,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._counters: dict[tuple[str, str | None], Counter] = {}
        self._gauges: dict[tuple[str, str | None], Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._adapters: Gauge | None = None
        GCCollector(self.registry)
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        for family in families:
            self._add_family(family, model, max_model_len)

    def add(self, name: str, amount: float, value: str | None = None) -> None:
        """Raise a counter; ``value`` is that of its further label."""
        counter = self._counters.get((name, value))
        if counter is not None:
            counter.inc(amount)

    def restart(self, name: str) -> None:
        """Take a counter back to 0, which no sound engine does."""
        counter = self._counters.get((name, None))
        if counter is not None:
            counter.reset()

    def set(self, name: str, amount: float, value: str | None = None) -> None:
        """Set a gauge."""
        gauge = self._gauges.get((name, value))
        if gauge is not None:
            gauge.set(amount)

    def observe(self, name: str, amount: float) -> None:
        """Put one observation into a histogram."""
        histogram = self._histograms.get(name)
        if histogram is not None:
            histogram.observe(amount)

    def add_info(self, name: str, help: str, labels: Mapping[str, str]) -> None:
        """Facts as labels of a gauge that is 1, such as ``vllm:cache_config_info``."""
        Gauge(name, help, list(labels), registry=self.registry).labels(**labels).set(1)

    def add_adapters(self) -> None:
        """``vllm:lora_requests_info``; an engine without LoRA has none."""
        self._adapters = Gauge(
            "vllm:lora_requests_info",
            "Adapters of running and waiting requests; the value is when this was so.",
            ["max_lora", "waiting_lora_adapters", "running_lora_adapters"],
            registry=self.registry,
        )

    def set_adapters(
        self, max_adapters: int, running: Sequence[str], waiting: Sequence[str], wall_s: float
    ) -> None:
        """Say which adapters have running and waiting requests. Every past combination stays on the page."""
        if self._adapters is not None:
            labels = (str(max_adapters), ",".join(waiting), ",".join(running))
            self._adapters.labels(*labels).set(wall_s)

    def render(self) -> tuple[bytes, str]:
        """Page and content type: the text format whatever the Accept header says, as vLLM does."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _add_family(self, family: Family, model: str, max_model_len: int) -> None:
        names = [*family.labels, family.label] if family.label else list(family.labels)
        common = tuple({"model_name": model, "engine": _ENGINE}[name] for name in family.labels)
        labels: list[tuple[str | None, tuple[str, ...]]] = [(None, common)]
        if family.label:
            labels = [(value, (*common, value)) for value in family.values]
        if family.kind == "counter":
            counter = Counter(family.name, family.help, names, registry=self.registry)
            self._counters.update({(family.name, value): counter.labels(*one) for value, one in labels})
        elif family.kind == "gauge":
            gauge = Gauge(family.name, family.help, names, registry=self.registry)
            self._gauges.update({(family.name, value): gauge.labels(*one) for value, one in labels})
        else:
            buckets = token_buckets(max_model_len) if family.buckets == "tokens" else family.buckets
            histogram = Histogram(family.name, family.help, names, registry=self.registry, buckets=buckets)
            self._histograms[family.name] = histogram.labels(*labels[0][1])
