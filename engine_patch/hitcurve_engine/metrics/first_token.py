"""In the API server's process: the time to the first token, apart for prompts that were found and for others.

vLLM has one histogram for both. What it tells its own metrics when a request ends holds the two times, queueing
and prefill, and in newer versions the cached tokens (``num_cached_tokens``). Without them nothing is counted.
"""

from types import ModuleType
from typing import Any, Final

from hitcurve.engine_patch_catalogue import ENGINE_PATCH_LABELS, FIRST_TOKEN
from hitcurve_engine.probes.import_watch import ImportWatch
from hitcurve_engine.probes.patching import Method, MethodPatch, parameter_position, wrap_method
from hitcurve_engine.switch import Switch

__all__ = ["LOGGERS_MODULE", "FirstTokens", "found_share"]

LOGGERS_MODULE: Final = "vllm.v1.metrics.loggers"
_PLACE: Final = "time to the first token"


class FirstTokens:
    """Looks on when vLLM counts finished requests. ``registry`` is prometheus_client's own unless given.

    An own error ends it with one line in the log; the rest of the patch goes on.
    """

    def __init__(self, switch: Switch, registry: Any = None) -> None:
        self._switch = switch
        self._registry = registry
        self._histogram: Any = None
        self._broken = False
        self._patch: MethodPatch | None = None
        self._watch = ImportWatch((LOGGERS_MODULE,), self._on_module)

    def install(self) -> None:
        """Hook in once vLLM's loggers are imported."""
        self._watch.start()

    def remove(self) -> None:
        """Take the hook off, unless somebody wrapped it in turn; then it only calls on."""
        self._watch.stop()
        self._broken = True
        if self._patch is not None:
            self._patch.remove()

    def hook(self, owner: type) -> None:
        """Wrap ``record`` of a ``PrometheusStatLogger``."""
        self._patch = wrap_method(owner, "record", self._on_record)

    def _on_module(self, _: str, module: ModuleType) -> None:
        # Called from inside somebody's import statement, which an error would break.
        try:
            self.hook(module.PrometheusStatLogger)
        except Exception as error:
            self._fail(error)

    def _on_record(self, original: Method) -> Method:
        stats_at = parameter_position(original, "iteration_stats")
        engine_at = parameter_position(original, "engine_idx")

        def record(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._switch.active and not self._broken:
                try:
                    stats = _argument("iteration_stats", stats_at, args, kwargs)
                    if stats is not None and stats.finished_requests:
                        self._count(args[0], _argument("engine_idx", engine_at, args, kwargs) or 0, stats)
                except Exception as error:
                    self._fail(error)
            return result

        return record

    def _count(self, logger: Any, engine: int, stats: Any) -> None:
        model = logger.vllm_config.model_config.served_model_name
        for request in stats.finished_requests:
            cached = getattr(request, "num_cached_tokens", None)
            # A request that ends before its first token has no such time, and vLLM's difference is below zero.
            if cached is None or not request.num_generation_tokens or request.prefill_time < 0:
                continue
            share = found_share(cached, request.num_prompt_tokens)
            seconds = max(request.queued_time, 0.0) + request.prefill_time
            self._metric().labels(str(engine), str(model), share).observe(seconds)

    def _metric(self) -> Any:
        if self._histogram is None:
            from prometheus_client import REGISTRY, Histogram

            names = (*ENGINE_PATCH_LABELS, *FIRST_TOKEN.labels)
            registry = REGISTRY if self._registry is None else self._registry
            self._histogram = Histogram(
                FIRST_TOKEN.name, FIRST_TOKEN.help, names, registry=registry, buckets=FIRST_TOKEN.buckets
            )
        return self._histogram

    def _fail(self, error: Exception) -> None:
        self._broken = True
        self._switch.note(_PLACE, error)


def found_share(cached: int, prompt: int) -> str:
    """``none``, ``some`` (less than half) or ``most`` of a prompt was found in the engine's cache or another."""
    return "none" if cached <= 0 else "most" if 2 * cached >= prompt else "some"


def _argument(name: str, position: int | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in kwargs:
        return kwargs[name]
    return args[position] if position is not None and position < len(args) else None
