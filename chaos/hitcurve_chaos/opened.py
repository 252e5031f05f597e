"""A target made ready for a run: its own engines started, its drivers opened; all ended when the block is left."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from hitcurve_chaos.demo.engines import RunningEngine, start_simulated, start_vllm
from hitcurve_chaos.demo.patched_vllm import patched_variables, spans_address
from hitcurve_chaos.drivers.docker_container import DockerContainer
from hitcurve_chaos.drivers.driver import Driver, DriverFailed
from hitcurve_chaos.drivers.own_engine import OwnEngine
from hitcurve_chaos.drivers.pid_file import PidFileProcess
from hitcurve_chaos.targets import Adapter, Target

__all__ = ["Drivers", "opened"]

_HTTP_ONLY = "the target file names no 'start', 'process' or 'docker' for it, so only HTTP reaches it"


@dataclass(frozen=True, slots=True)
class Drivers:
    """Drivers by the name of their target, and why a target has none."""

    by_target: Mapping[str, Driver] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def of(self, target: Target) -> Driver | None:
        return self.by_target.get(target.name)

    def why_none(self, target: Target) -> str:
        return self.missing.get(target.name, _HTTP_ONLY)


@contextmanager
def opened(target: Target, folder: Path) -> Iterator[tuple[Target, Drivers]]:
    """The target with the addresses of what was started for it, and its drivers.

    EnvironmentFailed where an engine of its own does not start. A driver that cannot be opened is none, with the
    reason kept: scenarios that need it are skipped.
    """
    with ExitStack() as stack:
        if target.start is not None:
            yield _started(target, folder, stack)
            return
        drivers: dict[str, Driver] = {}
        missing: dict[str, str] = {}
        for one in (target, *target.replicas):
            try:
                driver = _driver(one)
            except DriverFailed as error:
                missing[one.name] = str(error)
                continue
            if driver is not None:
                drivers[one.name] = driver
        yield target, Drivers(drivers, missing)


def _started(target: Target, folder: Path, stack: ExitStack) -> tuple[Target, Drivers]:
    assert target.start is not None
    engines: dict[str, OwnEngine] = {}
    collectors: dict[str, str | None] = {}
    for number in range(max(1, target.start.replicas)):
        name = target.name if number == 0 else f"{target.name}-{number}"
        sends = target.start.patched and target.start.engine == "vllm"
        collectors[name] = spans_address() if sends else None
        engines[name] = OwnEngine(partial(_launch, target, folder / "logs", name, collectors[name]))
        stack.callback(engines[name].close)
    ready = [
        replace(_ready(target, name, own.engine), collector=collectors[name]) for name, own in engines.items()
    ]
    return replace(ready[0], replicas=ready[1:]), Drivers(engines)


def _launch(target: Target, logs: Path, name: str, collector: str | None, port: int) -> RunningEngine:
    spec = target.start
    assert spec is not None
    # A name may go on as another's: "a-1" is also what the log of a first start of "a" is called.
    serial = next(number for number in count(1) if not (logs / f"engine-{name}-{number}.log").exists())
    log = logs / f"engine-{name}-{serial}.log"
    sizes = {"block_size": spec.block_size, "pool_blocks": spec.pool_blocks, "seed": spec.seed, "port": port}
    if spec.engine == "simulated":
        options = (*spec.options, *(["--patched"] if spec.patched and "--patched" not in spec.options else []))
        return start_simulated(log, **sizes, options=options)
    variables = patched_variables(logs / "engine-patch", collector) if collector is not None else {}
    return start_vllm(log, **sizes, options=spec.options, variables=variables)


def _ready(target: Target, name: str, engine: RunningEngine) -> Target:
    adapters = target.adapters or [Adapter(n, path) for n, path in engine.adapters]
    return replace(target, name=name, engine=engine.url, model=engine.model, adapters=adapters, replicas=())


def _driver(target: Target) -> Driver | None:
    if target.docker is not None:
        return DockerContainer(target.docker)
    if target.pid_file is not None:
        return PidFileProcess(target.pid_file)
    return None
