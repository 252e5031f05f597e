"""Replicas that share a cache (a KV store, KV-aware routing) must hash alike: do they begin their chains alike?"""

import re
from collections.abc import Sequence
from functools import partial

from hitcurve.errors import UsageError
from hitcurve.hashing import none_hash
from hitcurve_chaos.calls import NoAnswer
from hitcurve_chaos.clock import wait_until
from hitcurve_chaos.engine_page import page_text
from hitcurve_chaos.faults.drill import Numbers
from hitcurve_chaos.faults.fault import Injection
from hitcurve_chaos.hypothesis import AtLeast, AtMost, Expectation
from hitcurve_chaos.scenarios.drills import applied, drill
from hitcurve_chaos.scenarios.scenario import Bench, Story
from hitcurve_chaos.targets import Target

__all__ = ["HASH_SEED_DISAGREEMENT"]

_ALGORITHM = re.compile(r'prefix_caching_hash_algo="([^"]+)"')
_FINGERPRINT = re.compile(r'^hitcurve_engine_hash_root_info\{[^}]*fingerprint="([^"]+)"', re.MULTILINE)
_TIMEOUT_S = 5.0
_TELLS_S = 5.0


def _act(bench: Bench, numbers: Numbers) -> Injection:
    replicas = [bench.target, *bench.target.replicas]
    pages = _pages(bench, replicas)
    fingerprints = [_found(_FINGERPRINT, page) for page in pages]
    told = [f"{one.name}: its page tells {found}" for one, found in zip(replicas, fingerprints, strict=True)]
    roots = len(set(fingerprints))
    if None in fingerprints:
        # A fingerprint is not to be compared with a root: where one replica tells none, all are worked out.
        pairs = zip(replicas, pages, strict=True)
        try:
            found = [_worked_out(bench, *pair, number) for number, pair in enumerate(pairs, start=1)]
        except LookupError as error:
            return Injection("unverified", str(error))
        told, roots = [words for _, words in found], len({root for root, _ in found})
    numbers["replicas"], numbers["roots"] = len(replicas), roots
    return applied(f"the roots of {len(replicas)} replicas were compared ({'; '.join(told)})")


def _worked_out(bench: Bench, replica: Target, page: str, number: int) -> tuple[bytes, str]:
    """The root by algorithm, version and environment, in bytes and words; LookupError where one is unknown."""
    algorithm, version = _found(_ALGORITHM, page), _version(bench, replica)
    if algorithm is None or version is None:
        raise LookupError(f"replica {replica.name} tells no hash algorithm or no version")
    seed = bench.driver(replica).environment().get("PYTHONHASHSEED")
    try:
        # What an engine draws for itself is another root for each of them.
        root = none_hash(algorithm, seed, version, partial(_drawn, number))
    except UsageError as error:
        raise LookupError(f"the hashes of replica {replica.name} are not known ({error})") from error
    return root, f"{replica.name}: {algorithm}, PYTHONHASHSEED {'set' if seed is not None else 'not set'}"


def _drawn(number: int, count: int) -> bytes:
    return number.to_bytes(count)


def _pages(bench: Bench, replicas: Sequence[Target]) -> list[str]:
    """The replicas' pages after a request: an engine patch tells the root with the first one."""
    for replica in replicas:
        bench.probe.ask(bench.probe.new_tokens(4), engine=replica.engine)
    pages: list[str] = []

    def all_tell_or_none() -> bool:
        pages[:] = [page_text(replica.engine) or "" for replica in replicas]
        return len({_found(_FINGERPRINT, page) is None for page in pages}) == 1

    wait_until(all_tell_or_none, _TELLS_S, every_s=0.2)
    return pages


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _version(bench: Bench, replica: Target) -> tuple[int, ...] | None:
    try:
        values = bench.transport.send("GET", f"{replica.engine}/version", timeout_s=_TIMEOUT_S).json()
    except NoAnswer:
        return None
    told = str(values.get("version")) if isinstance(values, dict) else ""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", told)
    return tuple(int(part or 0) for part in found.groups()) if found else None


HASH_SEED_DISAGREEMENT = drill(
    name="hash-seed-disagreement",
    title="Hash seeds of replicas disagree",
    expected="All replicas begin their chains of block hashes with one root, so that equal prompts hash alike.",
    act=_act,
    expectations=(Expectation("roots", "different roots of block hashes among the replicas", AtMost(1)),),
    conditions=(Expectation("replicas", "replicas that were compared", AtLeast(2)),),
    needs=("replicas", "hash_roots"),
    story=Story(
        fault="None: the algorithm of /metrics, the version and PYTHONHASHSEED of each process decide its root. "
        "Unset, vLLM draws it: before 0.29 always, since then for the xxhash family.",
        signature="Within a replica nothing; a shared KV store and KV-aware routing hit for one replica only.",
        rollback="None is needed.",
        safety="Reads the environment of the engines' processes (one variable of it).",
    ),
)
