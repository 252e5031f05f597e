"""Every check, on records made by hand: what it finds, what it leaves alone, what it cannot judge.

Longer than 300 lines because all checks share one healthy record from which each test departs.
"""

from dataclasses import replace
from typing import Any

import pytest

from hitcurve.doctor.checks import CHECKS
from hitcurve.doctor.diagnosis import as_document, diagnose
from hitcurve.doctor.findings import Finding, Fleet, NotJudged
from hitcurve.doctor.observed import Engine, LocalProcess, PromptLengths, Replica
from hitcurve.doctor.sarif import as_sarif
from hitcurve.sample import AdapterActivity, EngineSample, LookupCounters

JUDGES = {check.id: check.judge for check in CHECKS}
CONFIG = {
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.9",
    "num_gpu_blocks_override": "None",
    "cache_dtype": "auto",
    "prefix_caching_hash_algo": "sha256",
}
SAMPLE = EngineSample(
    "0",
    0.0,
    0.0,
    labels={"model_name": "m"},
    lookups=LookupCounters(100_000, 60_000, spelling="vllm:prefix_cache_queries_total"),
    requests=200.0,
    preemptions=0.0,
    block_size=16,
    capacity_tokens=64_000,
    min_reusable_prefix_tokens=16,
)
PROMPTS = PromptLengths(200.0, 100_000.0, {10.0: 0.0, 20.0: 4.0, 1000.0: 200.0})
PATCH = {
    "hitcurve_engine_active": 1.0,
    "hitcurve_engine_query_tokens_total": 100_000.0,
    "hitcurve_engine_requests_total": 200.0,
    "hitcurve_engine_spans_total": 200.0,
    "hitcurve_engine_dropped_events_total": 0.0,
}
HEALTHY = Engine(SAMPLE, CONFIG, PROMPTS, PATCH, {"capacity": 1000.0})
PROCESS = LocalProcess(1, {}, frozenset({"127.0.0.1"}))


def replica(name: str = "a", engine: Engine = HEALTHY, **others: Any) -> Replica:
    known: dict[str, Any] = {"version": "0.32.0", "models": frozenset({"m"}), "paths": frozenset({"/v1/models"})}
    return Replica(name, True, engines=(engine,), process=PROCESS, **(known | others))


def config(**others: str) -> Engine:
    return replace(HEALTHY, config=CONFIG | others)


def sample(**others: Any) -> Engine:
    return replace(HEALTHY, sample=replace(SAMPLE, **others))


def patched(
    reasons: dict[str, float] | None = None, pools: dict[str, float] | None = None, **sums: float
) -> Engine:
    named = {f"hitcurve_engine_{name}": value for name, value in sums.items()}
    return replace(HEALTHY, patch=PATCH | named, patch_reasons=reasons or {}, patch_pools=pools or {})


def said(check: str, *replicas: Replica, prometheus: set[str] | None = None) -> list[Finding | NotJudged]:
    fleet = Fleet(replicas, None if prometheus is None else frozenset(prometheus))
    return list(JUDGES[check](fleet))


def only_finding(check: str, *replicas: Replica, **others: Any) -> Finding:
    (found,) = said(check, *replicas, **others)
    assert isinstance(found, Finding)
    return found


def test_two_healthy_replicas_give_nothing_but_what_needs_a_prometheus() -> None:
    diagnosis = diagnose(Fleet([replica("a"), replica("b")]))
    assert diagnosis.findings == []
    assert [(a.check.id, n.missing) for a in diagnosis.answers for n in a.not_judged] == [
        ("names-rewritten", "a Prometheus (--prometheus URL)")
    ]
    assert diagnosis.verdict == "ok"


def test_a_page_that_cannot_be_read_is_no_data_and_never_ok() -> None:
    diagnosis = diagnose(Fleet([Replica("a", True, failure="HTTP 500")]))
    assert diagnosis.verdict == "no_data"
    assert {n.missing for a in diagnosis.answers for n in a.not_judged} == {
        "HTTP 500",
        "a page that can be read",
        "a Prometheus (--prometheus URL)",
    }


def test_caching_off_is_an_error_and_an_unknown_switch_is_no_data() -> None:
    off = only_finding("caching-off", replica(engine=config(enable_prefix_caching="False")))
    assert (off.severity, off.cure) == ("error", "start vLLM without --no-enable-prefix-caching")
    silent = replace(sample(lookups=LookupCounters(0, 0)), config={})
    (unknown,) = said("caching-off", replica(engine=silent))
    assert isinstance(unknown, NotJudged)
    assert unknown.essential
    assert said("caching-off", replica(engine=replace(HEALTHY, config={}))) == [], "its hits say that it is on"


def test_a_cache_without_one_hit_is_named_only_after_enough_traffic() -> None:
    found = only_finding("caching-without-effect", replica(engine=sample(lookups=LookupCounters(100_000, 0))))
    assert found.message == "100000 tokens were looked up since the start and none was found"
    for few in ({"lookups": LookupCounters(9_999, 0)}, {"lookups": LookupCounters(100_000, 0), "requests": 49.0}):
        (unknown,) = said("caching-without-effect", replica(engine=sample(**few)))
        assert isinstance(unknown, NotJudged)
    in_blocks = LookupCounters(1_000, 0, unit="blocks", tokens_per_unit=16)
    assert only_finding("caching-without-effect", replica(engine=sample(lookups=in_blocks)))


def test_short_prompts_are_named_instead_of_a_useless_cache() -> None:
    prompts = PromptLengths(200.0, 2_000.0, {10.0: 100.0, 20.0: 190.0, 1000.0: 200.0})
    short = replace(sample(lookups=LookupCounters(100_000, 0), min_reusable_prefix_tokens=32), prompts=prompts)
    assert said("caching-without-effect", replica(engine=short)) == []
    found = only_finding("short-prefix", replica(engine=short))
    assert found.evidence == {"share": 0.95, "min_reusable_prefix_tokens": 32.0}
    (unknown,) = said("short-prefix", replica(engine=replace(short, prompts=None)))
    assert isinstance(unknown, NotJudged)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({}, "raise --gpu-memory-utilization (0.9 now)"),
        ({"gpu_memory_utilization": "0.95"}, "use --kv-cache-dtype fp8"),
        ({"gpu_memory_utilization": "0.95", "cache_dtype": "fp8"}, "use a smaller model or more GPUs"),
        ({"num_gpu_blocks_override": "128"}, "raise or drop --num-gpu-blocks-override (128 now)"),
    ],
)
def test_advice_never_asks_for_what_is_already_so(settings: dict[str, str], advice: str) -> None:
    engine = replace(patched({"capacity": 8_000.0}), config=CONFIG | settings)
    found = only_finding("pool-too-small", replica(engine=engine))
    assert found.evidence == {"capacity_miss_share": 0.08}
    assert advice in found.cure
    crowded = replace(sample(preemptions=4.0), config=CONFIG | settings)
    assert advice in only_finding("preemptions", replica(engine=crowded)).cure


def test_sglang_gets_its_own_options_and_no_patch_for_vllm() -> None:
    lookups = LookupCounters(100_000, 60_000, spelling="sglang:realtime_tokens_total")
    engine = Engine(replace(SAMPLE, lookups=lookups, preemptions=4.0))
    cure = "lower --max-running-requests, or raise --mem-fraction-static, or use a smaller model or more GPUs"
    assert only_finding("preemptions", replica(engine=engine)).cure == cure
    assert said("patch-loaded", replica(engine=engine)) == [
        NotJudged(("a",), "vLLM, which the engine patch is for")
    ]


def test_the_gain_of_a_larger_pool_is_a_number_where_the_patch_knows_it() -> None:
    pools = {"0.5": 30_000.0, "1": 60_000.0, "1.5": 65_000.0, "2": 70_000.0}
    engine = patched({"capacity": 8_000.0}, pools, pool_curve_query_tokens_total=100_000.0)
    cure = only_finding("pool-too-small", replica(engine=engine)).cure
    assert cure.endswith("a pool of twice the size would hit 70.0% instead of 60.0%")


def test_a_coarse_block_is_a_note_with_what_it_costs() -> None:
    found = only_finding("block-size", replica(engine=sample(min_reusable_prefix_tokens=128)))
    assert (found.severity, found.evidence["share"]) == ("note", 128 / 2 / 500)
    assert said("block-size", replica()) == []


def test_more_adapters_than_slots() -> None:
    busy = sample(adapters=AdapterActivity(("a",), ("b",), 1))
    served = frozenset({"a", "b", "c"})
    assert only_finding("adapters-over-slots", replica(engine=busy, adapters=served)).evidence["adapters"] == 3.0
    assert only_finding("adapters-over-slots", replica(engine=busy)).evidence["adapters"] == 2.0
    (unknown,) = said("adapters-over-slots", replica(adapters=served))
    assert isinstance(unknown, NotJudged)


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("model", {"engine": sample(labels={"model_name": "n"})}),
        ("vLLM version", {"version": "0.31.0"}),
        ("block size", {"engine": sample(block_size=32)}),
        ("hash algorithm", {"engine": config(prefix_caching_hash_algo="xxhash")}),
        ("KV cache type", {"engine": config(cache_dtype="fp8")}),
        ("prefix caching", {"engine": config(enable_prefix_caching="False")}),
    ],
)
def test_what_replicas_differ_in_is_named(what: str, other: dict[str, Any]) -> None:
    messages = [
        f.message for f in said("replicas-disagree", replica("a"), replica("b", **other)) if isinstance(f, Finding)
    ]
    assert any(message.startswith(f"replicas differ in {what} (") for message in messages)


def test_pools_of_one_model_are_compared_and_two_per_cent_are_nothing() -> None:
    assert said("pools-differ", replica("a"), replica("b", sample(capacity_tokens=63_000))) == []
    found = only_finding("pools-differ", replica("a"), replica("b", sample(capacity_tokens=32_000)))
    assert found.message == "pools of m differ: 32,000 tokens on b, up to 64,000 elsewhere"


@pytest.mark.parametrize(
    ("algorithm", "version", "seed", "finds"),
    [
        ("xxhash", "0.32.0", None, True),
        ("xxhash", "0.32.0", "0", False),
        ("sha256", "0.32.0", None, False),
        ("sha256", "0.28.0", None, True),
        ("builtin", "0.9.0", None, True),
    ],
)
def test_hashes_that_differ_between_replicas(algorithm: str, version: str, seed: str | None, finds: bool) -> None:
    process = replace(PROCESS, environment={} if seed is None else {"PYTHONHASHSEED": seed})
    both = [
        replace(replica(name, config(prefix_caching_hash_algo=algorithm), version=version), process=process)
        for name in "ab"
    ]
    assert len(said("hash-seed", *both)) == finds
    assert said("hash-seed", both[0]) == [], "one replica has nobody to agree with"
    far = [replace(one, process=None) for one in both]
    assert any(isinstance(one, NotJudged) for one in said("hash-seed", *far)) == (finds or seed is not None)


def test_a_shared_cache_makes_differing_hashes_an_error() -> None:
    connected = replace(
        sample(external=LookupCounters(10, 0)), config=CONFIG | {"prefix_caching_hash_algo": "xxhash"}
    )
    found = only_finding("hash-seed", replica("a", connected), replica("b", connected))
    assert found.severity == "error"


def test_counters_of_older_versions_are_explained() -> None:
    old = sample(lookups=LookupCounters(100, 50, "blocks", 16, "vllm:gpu_prefix_cache_queries_total"))
    notes = said("counters-mean-else", replica(engine=old, version="0.8.5"))
    assert [note.severity for note in notes if isinstance(note, Finding)] == ["note", "note"]
    flagged = only_finding("counters-mean-else", replica(engine=sample(flags=("duplicate_series",))))
    assert flagged.message.startswith("duplicate_series: ")


def test_names_that_changed_on_the_way_or_never_came() -> None:
    assert said("names-rewritten", replica(), prometheus={"vllm:prefix_cache_queries_total", "up"}) == []
    rewritten = only_finding("names-rewritten", replica(), prometheus={"vllm_prefix_cache_queries_total"})
    assert "vllm_prefix_cache_queries_total" in rewritten.message
    assert only_finding("names-rewritten", replica(), prometheus={"up"}).severity == "error"


@pytest.mark.parametrize(
    ("listens", "finds"), [({"127.0.0.1"}, 0), ({"::1"}, 0), ({"0.0.0.0"}, 1), ({"::"}, 1), ({"10.0.0.5"}, 1)]
)
def test_development_endpoints_open_to_others(listens: set[str], finds: int) -> None:
    paths = frozenset({"/reset_prefix_cache", "/v1/models"})
    here = replace(replica(paths=paths), process=replace(PROCESS, listens_on=frozenset(listens)))
    assert len(said("dev-endpoints-exposed", here)) == finds
    closed = replace(here, paths=frozenset({"/v1/models"}))
    assert said("dev-endpoints-exposed", closed) == []
    (unknown,) = said("dev-endpoints-exposed", replace(here, process=None))
    assert isinstance(unknown, NotJudged)
    assert only_finding("dev-endpoints-exposed", replace(here, loopback=False)).severity == "error"


@pytest.mark.parametrize(
    ("engine", "severity", "words"),
    [
        (replace(HEALTHY, patch={}), "note", "is not loaded"),
        (patched(active=0.0, errors_total=3.0), "error", "switched itself off after 3 errors"),
        (patched(dropped_events_total=25.0, events_total=75.0), "warning", "lost 25 of 100 events"),
    ],
)
def test_a_patch_that_does_not_record(engine: Engine, severity: str, words: str) -> None:
    found = only_finding("patch-loaded", replica(engine=engine))
    assert found.severity == severity
    assert words in found.message
    assert found.evidence["process"] == str(PROCESS.pid)


def test_a_patch_left_out_by_the_environment_is_a_warning() -> None:
    left_out = replace(PROCESS, environment={"VLLM_PLUGINS": "other"})
    here = replace(replica(engine=replace(HEALTHY, patch={})), process=left_out)
    assert only_finding("patch-loaded", here).cure == "add hitcurve to VLLM_PLUGINS"


def test_spans_that_did_not_arrive() -> None:
    found = only_finding("spans-lost", replica(engine=patched(dropped_spans_total=5.0)))
    assert found.message == "5 spans did not arrive, 200 did"
    (unknown,) = said("spans-lost", replica(engine=patched(requests_total=0.0)))
    assert isinstance(unknown, NotJudged)


def test_a_tier_that_a_reset_leaves_filled() -> None:
    assert only_finding("reset-one-tier", replica(engine=sample(external=LookupCounters(9, 1)))).severity == "note"
    assert said("reset-one-tier", replica(engine=sample(external=LookupCounters(0, 0)))) == []


def test_the_same_finding_on_several_replicas_is_said_once() -> None:
    bare = replace(HEALTHY, patch={})
    diagnosis = diagnose(Fleet([replica("a", bare), replace(replica("b", bare), process=replace(PROCESS, pid=2))]))
    ((check, found),) = diagnosis.findings
    assert (check.id, found.where) == ("patch-loaded", ("a", "b"))
    assert found.evidence == {}, "the processes differ"
    assert diagnosis.verdict == "ok", "a note is nothing wrong"


def test_documents_hold_every_check_and_every_finding() -> None:
    diagnosis = diagnose(Fleet([replica("a", config(enable_prefix_caching="False")), replica("b")]))
    document = as_document(diagnosis)
    assert (document["version"], document["verdict"], document["replicas"]) == (1, "bad", ["a", "b"])
    assert [check["id"] for check in document["checks"]] == [check.id for check in CHECKS]
    sarif = as_sarif(diagnosis)
    (run,) = sarif["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [check.id for check in CHECKS]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("caching-off", "error"),
        ("replicas-disagree", "error"),
    ]


def test_every_check_has_its_place_in_the_docs(repository: Any) -> None:
    page = (repository / "docs" / "doctor.md").read_text()
    headings = [line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")]
    assert headings == [check.id for check in CHECKS]
    assert len({check.id for check in CHECKS}) == len(CHECKS)
