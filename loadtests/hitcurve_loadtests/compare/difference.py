"""What differs between two loads, with intervals over blocks of paired requests."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from hitcurve_loadtests.compare.pairs import Load, Pair, paired
from hitcurve_loadtests.intervals import Interval, bootstrap

__all__ = ["difference"]

_MOST_BLOCKS = 200
_TIMES = {"ttft_s": "ttft_s", "tpot_s": "tpot_s", "request_duration_s": "duration_s"}

Sums = tuple[float, ...]


def difference(one: Load, other: Load) -> dict[str, Any]:
    """Hit rates and their difference (B - A), times and their ratio of means (B / A); ``None`` is "no value"."""
    pairs = paired(one, other)
    answer: dict[str, Any] = {
        "a": str(one.path),
        "b": str(other.path),
        "pairs": len(pairs),
        "left_out": len(one.requests.keys() | other.requests.keys()) - len(pairs),
        "hit_rate": _hit_rate(pairs),
    }
    for name, key in _TIMES.items():
        known = [pair for pair in pairs if all(request[key] is not None for request in pair)]
        answer[name] = _ratio(known, key)
    return answer


def _hit_rate(pairs: Sequence[Pair]) -> dict[str, Any]:
    keys = ("cached_tokens", "prompt_tokens")
    known = [pair for pair in pairs if all(request[key] is not None for request in pair for key in keys)]
    sums = _blocks(known, lambda pair: tuple(float(request[key]) for request in pair for key in keys))
    total = [sum(values) for values in zip(*sums, strict=True)] if sums else [0.0] * 4
    rates = [total[at] / total[at + 1] if total[at + 1] else None for at in (0, 2)]
    return {"a": rates[0], "b": rates[1], "pairs": len(known), "difference": asdict(_of(sums, _rate_difference))}


def _ratio(pairs: Sequence[Pair], key: str) -> dict[str, Any]:
    sums = _blocks(pairs, lambda pair: (float(pair[0][key]), float(pair[1][key])))
    total = [sum(values) for values in zip(*sums, strict=True)] if sums else [0.0, 0.0]
    means = [value / len(pairs) if pairs else None for value in total]
    return {
        "a_mean": means[0],
        "b_mean": means[1],
        "pairs": len(pairs),
        "ratio": asdict(_of(sums, _ratio_of_sums)),
    }


def _of(sums: Sequence[Sums], estimate: Callable[[Sequence[Sums]], float | None]) -> Interval:
    return bootstrap(sums, estimate) if sums else Interval(None)


def _rate_difference(blocks: Sequence[Sums]) -> float | None:
    hits_a, tokens_a, hits_b, tokens_b = (sum(values) for values in zip(*blocks, strict=True))
    return hits_b / tokens_b - hits_a / tokens_a if tokens_a and tokens_b else None


def _ratio_of_sums(blocks: Sequence[Sums]) -> float | None:
    first, second = (sum(values) for values in zip(*blocks, strict=True))
    return second / first if first > 0 else None


def _blocks(pairs: Sequence[Pair], measure: Callable[[Pair], Sums]) -> list[Sums]:
    """Sums over blocks of consecutive pairs, 200 blocks at most."""
    size = max(1, -(-len(pairs) // _MOST_BLOCKS))
    return [
        tuple(sum(values) for values in zip(*map(measure, pairs[start : start + size]), strict=True))
        for start in range(0, len(pairs), size)
    ]
