"""Every setting of the patch: environment variables ``HITCURVE_*``, read when the plugin is loaded.

====================================  ===========  ==============================================================
variable                              default      meaning
====================================  ===========  ==============================================================
``HITCURVE_ENGINE``                   ``on``       ``off``: the installed plugin does nothing
``HITCURVE_QUEUE_EVENTS``             ``65536``    events between the engine's thread and the recorder's; beyond
                                                   that they are dropped and counted
``HITCURVE_OWN_PROCESS``              ``on``       ``off``: everything is done by threads of the engine's process,
                                                   which cost the engine more
``HITCURVE_GHOSTS_PER_BLOCK``         ``4``        keys of gone blocks that are remembered, per block of the
                                                   pool, with the time since when
``HITCURVE_GONE_KEYS``                ``4194304``  keys of blocks gone earlier, in four bytes each; of up to a
                                                   quarter as many 99.9 % are kept, others read ``compulsory``
``HITCURVE_ISOLATED``                 ``on``       ``off``: tokens are never compared across adapters, salts and
                                                   images; what would read ``isolated`` reads ``compulsory``
``HITCURVE_OUTCOME_FILE``             unset        append one JSON line per finished request, eviction batch,
                                                   regret and reset; ``{pid}`` in the name becomes the process id
``HITCURVE_SPANS``                    ``on``       ``off``: no spans, even where an OTLP endpoint is set
``HITCURVE_SPANS_KEEP_CAPACITY``      unset        keep the span of a request with at least so many ``capacity``
                                                   miss tokens, whatever the sampler says
``HITCURVE_SPANS_KEEP_STALE``         ``on``       keep the span of a request that found blocks of an adapter's
                                                   earlier weights, whatever the sampler says
``HITCURVE_POOL_CURVE``               ``off``      ``on``: estimate what the hit rate would be in pools of other
                                                   sizes
``HITCURVE_POOL_CURVE_KEYS``          ``16384``    blocks that the estimate follows at most; more of them make it
                                                   finer, and cost memory and time
``HITCURVE_METRICS``                  ``on``       ``off``: no ``hitcurve_engine_*`` metrics
``HITCURVE_METRICS_PORT``             unset        serve them on a port per engine, too: this one plus the engine's
                                                   index
``HITCURVE_METRICS_HOST``             127.0.0.1    the address of that port
``HITCURVE_METRICS_ADAPTERS``         ``20``       adapters with a label of their own, first come; all others are
                                                   ``other``
====================================  ===========  ==============================================================

A value that cannot be read is the default, with one warning: a typing error must not stop an engine.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Settings", "read_settings"]

T = TypeVar("T")
D = TypeVar("D")

_log = logging.getLogger("hitcurve.engine")


@dataclass(frozen=True, slots=True)
class Settings:
    """See the module's table."""

    enabled: bool = True
    queue_events: int = 65_536
    own_process: bool = True
    ghosts_per_block: float = 4.0
    gone_keys: int = 1 << 22
    isolated: bool = True
    outcome_file: str | None = None
    spans: bool = True
    spans_keep_capacity: int | None = None
    spans_keep_stale: bool = True
    pool_curve: bool = False
    pool_curve_keys: int = 16_384
    metrics: bool = True
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    metrics_adapters: int = 20


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings of a process. Never raises."""
    return Settings(
        enabled=_read(environment, "HITCURVE_ENGINE", _switch, True),
        queue_events=_read(environment, "HITCURVE_QUEUE_EVENTS", _positive, 65_536),
        own_process=_read(environment, "HITCURVE_OWN_PROCESS", _switch, True),
        ghosts_per_block=_read(environment, "HITCURVE_GHOSTS_PER_BLOCK", _not_negative, 4.0),
        gone_keys=_read(environment, "HITCURVE_GONE_KEYS", _count, 1 << 22),
        isolated=_read(environment, "HITCURVE_ISOLATED", _switch, True),
        outcome_file=environment.get("HITCURVE_OUTCOME_FILE") or None,
        spans=_read(environment, "HITCURVE_SPANS", _switch, True),
        spans_keep_capacity=_read(environment, "HITCURVE_SPANS_KEEP_CAPACITY", _positive, None),
        spans_keep_stale=_read(environment, "HITCURVE_SPANS_KEEP_STALE", _switch, True),
        pool_curve=_read(environment, "HITCURVE_POOL_CURVE", _switch, False),
        pool_curve_keys=_read(environment, "HITCURVE_POOL_CURVE_KEYS", _positive, 16_384),
        metrics=_read(environment, "HITCURVE_METRICS", _switch, True),
        metrics_port=_read(environment, "HITCURVE_METRICS_PORT", _port, None),
        metrics_host=environment.get("HITCURVE_METRICS_HOST") or "127.0.0.1",
        metrics_adapters=_read(environment, "HITCURVE_METRICS_ADAPTERS", _positive, 20),
    )


def _read(environment: Mapping[str, str], name: str, parse: Callable[[str], T], default: D) -> T | D:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        return parse(text)
    except ValueError:
        _log.warning("hitcurve: %s is %r, which cannot be read; %s is used", name, text, default)
        return default


def _switch(text: str) -> bool:
    if text.lower() in ("on", "1", "true", "yes"):
        return True
    if text.lower() in ("off", "0", "false", "no"):
        return False
    raise ValueError


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _port(text: str) -> int:
    number = _positive(text)
    if number > 65_535:
        raise ValueError
    return number


def _not_negative(text: str) -> float:
    number = float(text)
    if not number >= 0:
        raise ValueError
    return number
