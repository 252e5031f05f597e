"""The doctor and the live view on two real vLLM servers, one of them misconfigured in every way a CPU allows."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

pytestmark = pytest.mark.real_vllm

WRONG = ("--no-enable-prefix-caching", "--prefix-caching-hash-algo", "xxhash", "--host", "0.0.0.0")


@pytest.fixture(scope="module")
def servers(
    vllm_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningEngine, RunningEngine]]:
    """A good one, and one with another block size, pool, hash, no cache, open to all and without the patch."""
    folder = tmp_path_factory.mktemp("doctor")
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(start_vllm, folder / "good.log", block_size=32, pool_blocks=128, seed=0)
        bad = pool.submit(
            start_vllm,
            folder / "bad.log",
            block_size=64,
            pool_blocks=256,
            seed=0,
            options=WRONG,
            variables={"VLLM_PLUGINS": "nothing"},
        )
        started = [one.result() for one in (good, bad)]
    yield started[0], started[1]
    for server in started:
        server.process.stop()


def hitcurve(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "hitcurve", *words], capture_output=True, text=True, timeout=120)


def named(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Check and first words of every error and warning."""
    return {
        (check["id"], found["message"].partition(" (")[0])
        for check in document["checks"]
        for found in check["findings"]
        if found["severity"] != "note"
    }


def test_a_good_server_is_left_alone(servers: tuple[RunningEngine, RunningEngine]) -> None:
    ended = hitcurve("doctor", servers[0].url, "--json")
    assert named(json.loads(ended.stdout)) == set()
    assert (ended.returncode, ended.stderr) == (0, "")


def test_every_defect_of_the_other_is_named_and_nothing_else(servers: tuple[RunningEngine, RunningEngine]) -> None:
    good, bad = servers
    ended = hitcurve("doctor", good.url, bad.url, "--json")
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    assert {check for check, _ in named(document)} == {
        "caching-off",
        "replicas-disagree",
        "pools-differ",
        "hash-seed",
        "dev-endpoints-exposed",
        "patch-loaded",
    }
    differ = {message for check, message in named(document) if check == "replicas-disagree"}
    assert differ == {f"replicas differ in {what}" for what in ("block size", "hash algorithm", "prefix caching")}
    alone = [
        found["where"]
        for check in document["checks"]
        for found in check["findings"]
        if check["id"] in ("caching-off", "hash-seed", "dev-endpoints-exposed", "patch-loaded")
        and found["severity"] != "note"
    ]
    assert alone == [[bad.url.removeprefix("http://")]] * 4


def test_the_live_view_shows_both(servers: tuple[RunningEngine, RunningEngine]) -> None:
    ended = hitcurve("watch", *(server.url for server in servers), "--once", "--json")
    assert ended.returncode == 0
    engines = {one["target"]: one for one in json.loads(ended.stdout)["engines"]}
    assert [(engines[s.url]["up"], engines[s.url]["block_size"]) for s in servers] == [(True, 32), (True, 64)]
    assert {one["state"]["state"] for one in engines.values()} == {"cold"}
