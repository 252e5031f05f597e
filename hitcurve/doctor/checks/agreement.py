"""Do replicas of one model agree with each other?"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from hitcurve.doctor.checks.where import name_of
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said, Severity
from hitcurve.doctor.observed import Engine, Replica

__all__ = ["AGREEMENT"]

_SAME_POOL: Final = 0.02
_HASHED_ALIKE_SINCE: Final = (0, 29, 0)
_RANDOM_SEED: Final = ("xxhash", "xxhash_cbor", "builtin")


def _disagreement(fleet: Fleet) -> Iterator[Said]:
    for what, value, severity in _COMPARED:
        found: dict[str, list[str]] = defaultdict(list)
        for replica, engine in fleet.engines():
            known = value(replica, engine)
            if known is not None:
                found[known].append(name_of(replica, engine))
        if len(found) > 1:
            listed = "; ".join(f"{known}: {', '.join(sorted(names))}" for known, names in sorted(found.items()))
            yield Finding(
                tuple(sorted(name for names in found.values() for name in names)),
                f"replicas differ in {what} ({listed})",
                "start them alike, or put them behind different routes: a request hits only where its prefix was "
                "computed under the same settings",
                {what: ", ".join(sorted(found))},
                severity,
            )


def _pools(fleet: Fleet) -> Iterator[Said]:
    by_settings: dict[str, dict[str, int]] = defaultdict(dict)
    for replica, engine in fleet.engines():
        tokens = engine.sample.capacity_tokens
        if tokens is not None:
            by_settings[_model(replica, engine) or ""][name_of(replica, engine)] = tokens
    for model, pools in by_settings.items():
        least, most = min(pools.values()), max(pools.values())
        if most - least > _SAME_POOL * most:
            smallest = ", ".join(sorted(name for name, tokens in pools.items() if tokens == least))
            yield Finding(
                tuple(sorted(pools)),
                f"pools of {model or 'one model'} differ: {least:,} tokens on {smallest}, up to {most:,} "
                "elsewhere",
                "give every replica the same memory, or let the router weigh them by it",
                {"least_tokens": float(least), "most_tokens": float(most)},
            )


def _hash_seed(fleet: Fleet) -> Iterator[Said]:
    pairs = list(fleet.engines())
    if len(pairs) < 2:
        return
    random = [(replica, engine) for replica, engine in pairs if _random_seed(replica, engine)]
    unknown = [(r, e) for r, e in random if r.process is None]
    certain = [
        (r, e) for r, e in random if r.process is not None and not r.process.environment.get("PYTHONHASHSEED")
    ]
    if certain:
        shared = any(
            engine.sample.external is not None and engine.sample.external.queries > 0 for _, engine in certain
        )
        yield Finding(
            tuple(name_of(replica, engine) for replica, engine in certain),
            "block hashes start from a random number per process (PYTHONHASHSEED is not set), so the same "
            "prefix has "
            "another hash on every replica",
            "set PYTHONHASHSEED to the same number on all of them before they share a cache or a router "
            "reads their "
            "KV events",
            {"algorithm": ", ".join(sorted({str(_algorithm(engine)) for _, engine in certain}))},
            "error" if shared else "warning",
        )
    if unknown:
        yield NotJudged(tuple(name_of(r, e) for r, e in unknown), "the engines' environment (PYTHONHASHSEED)")


def _random_seed(replica: Replica, engine: Engine) -> bool:
    """Whether hashes differ between processes without a seed; vLLM 0.29 made those of sha256 agree."""
    algorithm, version = _algorithm(engine), replica.version_numbers
    if algorithm is None:
        return False
    return algorithm in _RANDOM_SEED or (version is not None and version < _HASHED_ALIKE_SINCE)


def _algorithm(engine: Engine) -> str | None:
    return engine.config.get("prefix_caching_hash_algo")


def _model(replica: Replica, engine: Engine) -> str | None:
    return engine.sample.labels.get("model_name") or (
        ", ".join(sorted(replica.models)) if replica.models else None
    )


def _shortest(_: Replica, engine: Engine) -> str | None:
    """Only where it is not simply the block size, which is compared anyway."""
    shortest = engine.sample.min_reusable_prefix_tokens
    return None if shortest == engine.sample.block_size else _whole(shortest)


def _whole(value: int | None) -> str | None:
    return None if value is None else str(value)


_COMPARED: Final[tuple[tuple[str, Callable[[Replica, Engine], str | None], Severity], ...]] = (
    ("model", _model, "warning"),
    ("vLLM version", lambda replica, _: replica.version, "warning"),
    ("block size", lambda _, engine: _whole(engine.sample.block_size), "warning"),
    ("shortest reusable prefix", _shortest, "warning"),
    ("hash algorithm", lambda _, engine: _algorithm(engine), "warning"),
    ("KV cache type", lambda _, engine: engine.config.get("cache_dtype"), "warning"),
    ("prefix caching", lambda _, engine: engine.config.get("enable_prefix_caching"), "error"),
)

AGREEMENT: Final = (
    Check("replicas-disagree", "Do all replicas have the same model, version and settings?", _disagreement),
    Check("pools-differ", "Do the pools of one model have the same size?", _pools),
    Check("hash-seed", "Do replicas give the same prefix the same hash?", _hash_seed),
)
