"""What else the page shows while something is wrong, by the cause of it."""

from itertools import count

from hitcurve.reading import Cause
from labelled_curves.setting import Setting
from labelled_curves.shapes import pieces

__all__ = ["signals_of"]

_LORAS = ("support", "legal", "code")


def signals_of(cause: Cause, setting: Setting, from_s: float, to_s: float) -> dict[str, object]:
    """Traffic's other fields for a cause that acts from ``from_s`` to ``to_s``."""
    rng = setting.rng
    usual: dict[str, object] = {"adapters": lambda _: _LORAS[:2]} if rng.random() < 0.5 else {}
    if cause == "pool_pressure":
        return usual | _pressure(int(rng.integers(3)), from_s, to_s)
    if cause == "lora_churn":
        return {"adapters": _churn(setting, from_s, to_s)}
    if cause == "isolation":
        return {"adapters": lambda _: _LORAS}
    if cause == "short_prefix":
        return {"block_size": 784} | ({"adapters": lambda _: ("base",)} if rng.random() < 0.5 else {})
    if cause == "traffic_shift":
        if rng.random() < 0.5:
            return usual | {"longer": pieces((0.0, 1.0), (from_s, 3.0), (to_s, 1.0))}
        qps = setting.qps
        return usual | {"qps": pieces((0.0, qps), (from_s, 4.0 * qps), (to_s, qps))}
    return usual if cause == "unknown" and from_s > 0 else {}


def _pressure(which: int, from_s: float, to_s: float) -> dict[str, object]:
    if which == 0:
        return {
            "evictions": pieces((0.0, 2.0), (from_s, 30.0), (to_s, 2.0)) if from_s > 0 else pieces((0.0, 30.0))
        }
    if which == 1:
        return {"preemptions": pieces((0.0, 0.0), (from_s, 0.5), (to_s, 0.0))}
    return {"usage": pieces((0.0, 0.4), (from_s, 0.99), (to_s, 0.4))}


def _churn(setting: Setting, from_s: float, to_s: float):  # type: ignore[no-untyped-def]
    fresh = count()

    def running(t: float) -> tuple[str, ...]:
        if from_s <= t < to_s:
            return ("base", *(f"fresh-{next(fresh)}" for _ in range(2)))
        return ("base",)

    return running
