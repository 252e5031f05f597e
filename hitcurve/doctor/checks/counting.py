"""What the numbers mean: units, names, repeated lookups, and what a reset leaves alone."""

from collections.abc import Iterator
from typing import Final

from hitcurve.doctor.checks.where import name_of
from hitcurve.doctor.findings import Check, Finding, Fleet, NotJudged, Said
from hitcurve.flags import ALL_FLAGS

__all__ = ["COUNTING"]

_ONCE_PER_REQUEST_SINCE: Final = (0, 27, 0)
_OWN_NAMES: Final = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_CORE: Final = "prefix_cache_queries"


def _units(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        here, lookups = (name_of(replica, engine),), engine.sample.lookups
        if lookups is not None and lookups.unit == "blocks":
            yield Finding(
                here,
                f"{lookups.spelling} counts blocks, not tokens",
                "do not add it to counters of newer replicas; the exporter converts it",
                {"block_size": None if lookups.tokens_per_unit is None else float(lookups.tokens_per_unit)},
                "note",
            )
        for flag in engine.sample.flags:
            yield Finding(
                here, f"{flag}: {ALL_FLAGS[flag]}", "see docs/exporter.md for what the exporter does about it"
            )
        version = replica.version_numbers
        if version is not None and version < _ONCE_PER_REQUEST_SINCE and lookups is not None:
            yield Finding(
                here,
                f"vLLM {replica.version} counts a waiting request's lookup at every scheduling attempt, so under "
                "load "
                "its counters move faster than prompts come in",
                "trust the rate, not the volume; prompt_tokens_cached_total counts every request once where it "
                "exists",
                {"version": replica.version},
                "note",
            )


def _tiers(fleet: Fleet) -> Iterator[Said]:
    for replica, engine in fleet.engines():
        if engine.sample.external is not None and engine.sample.external.queries > 0:
            yield Finding(
                (name_of(replica, engine),),
                "a cache outside the engine answers too, and a plain POST /reset_prefix_cache leaves it filled",
                "add ?reset_external=true where both must be empty, and watch the tiers apart",
                {"external_hit_tokens": engine.sample.external.hits},
                "note",
            )


def _names(fleet: Fleet) -> Iterator[Said]:
    names = fleet.prometheus_names
    if names is None:
        yield NotJudged((), "a Prometheus (--prometheus URL)")
        return
    found = sorted(name for name in names if _CORE in name and name.startswith(("vllm", "ray_vllm")))
    if not found:
        yield Finding(
            (),
            "the Prometheus holds no lookup counters of vLLM",
            "add the engines to its scrape_configs, and look for metric_relabel_configs that drop vllm:*",
            {"names": float(len(names))},
            "error",
        )
    elif not names & set(_OWN_NAMES):
        yield Finding(
            (),
            f"the lookup counters are called {found[0]} in the Prometheus: something on the way rewrites names",
            "use recording rules, and dashboards of hitcurve, which know both spellings; queries with vllm: "
            "find nothing",
            {"name": found[0]},
        )


COUNTING: Final = (
    Check("counters-mean-else", "Do the counters mean what they mean in current vLLM?", _units),
    Check("reset-one-tier", "Does a reset empty every tier?", _tiers),
    Check("names-rewritten", "Does Prometheus hold the names the engine prints?", _names),
)
