"""The engine patch in a real vLLM server on CPU: it tells the truth, and the server does not notice.

The same traffic (completions, adapters, salts, prompt_logprobs, pressure with preemptions, resets) goes to a
server without the patch, to one with it, and to one with the patch and a fault planted in a hook. The release is
0.32, or what ``make plugin-on VLLM=0.29.0`` says.

Longer than 300 lines because one traffic on servers that take a minute to start is judged from every side.
"""

import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from hitcurve_chaos.demo.engines import RunningEngine, start_vllm

pytestmark = pytest.mark.real_vllm

BLOCK_SIZE = 32
POOL_BLOCKS = 128
SETTLE_S = 30.0
FAULT = """
from hitcurve_engine import plugin
from hitcurve_engine.probes import probe


class Breaking(probe.deque):
    def append(self, event):
        if len(self.seen) >= 40:
            raise RuntimeError("planted")
        self.seen.append(event[0])
        super().append(event)


Breaking.seen = []


def register():
    probe.deque = Breaking
    plugin.register()
"""


def install(folder: Path, repository: Path, entry_point: str) -> str:
    """A PYTHONPATH on which vLLM finds the plugin, as after an installation."""
    info = folder / "hitcurve-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hitcurve\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\nhitcurve = {entry_point}\n")
    (folder / "planted_fault.py").write_text(FAULT)
    return os.pathsep.join([str(folder), str(repository / "engine_patch"), str(repository)])


def post(url: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(url, data=json.dumps(body or {}).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=120) as reply:
        text = reply.read()
    return json.loads(text) if text else None


class Traffic:
    """Sends requests and keeps what came back, by name, and the answers to all resets, in order."""

    def __init__(self, engine: RunningEngine) -> None:
        self.engine = engine
        self.texts: dict[str, str] = {}
        self.sent = 0
        self.resets: list[bool] = []
        self.lock = threading.Lock()

    def complete(self, name: str, prompt: str, tokens: int = 8, model: str | None = None, **more: Any) -> None:
        body = {
            "model": model or self.engine.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            **more,
        }
        reply = post(f"{self.engine.url}/v1/completions", {**body, "ignore_eos": True})
        with self.lock:
            self.texts[name] = reply["choices"][0]["text"]
            self.sent += 1

    def reset(self, running: bool = False) -> bool:
        answer = bool(post(f"{self.engine.url}/reset_prefix_cache?reset_running_requests={running}")["success"])
        self.resets.append(answer)
        return answer

    def reset_while(self, name: str, prompt: str, tokens: int) -> tuple[bool, bool]:
        """Answers to a reset, and to one by force, that came while a request held blocks.

        On a crowded machine a client may see nothing of a request until it ended, so only the refusal itself shows
        that the request ran; both are sent again until one was refused.
        """
        with ThreadPoolExecutor(1) as pool:
            for _ in range(10):
                long = pool.submit(self.complete, name, prompt, tokens)
                while not long.done():
                    if not self.reset():
                        by_force = self.reset(running=True)
                        long.result()
                        return False, by_force
                long.result()
        return True, True

    def send(self) -> dict[str, bool]:
        """All of it; the answers of the resets that tell something."""
        shared = "The same beginning for everybody, long enough for several blocks. " * 5
        for number in range(6):
            self.complete(f"plain {number}", shared + f"question {number % 3}")
        self.load_adapters()
        for number in range(2):
            for name, _ in self.engine.adapters[:2]:
                self.complete(f"{name} {number}", shared, model=name)
            for salt in ("one", "two"):
                self.complete(f"salt {salt} {number}", shared, cache_salt=salt)
            self.complete(f"logprobs {number}", shared, prompt_logprobs=1)
        resets = {"idle": self.reset()}
        for number in range(3):
            self.complete(f"after reset {number}", shared)
        for first in (0, 8):
            self.press(first, 8)
        resets["running"], resets["by force"] = self.reset_while("long", "x" * 500, 2500)
        self.complete("last", shared)
        return resets

    def press(self, first: int, prompts: int) -> None:
        """Requests that the engine gets at once: all begin to run, and together they outgrow the pool."""
        body = {
            "model": self.engine.model,
            "prompt": [f"{index:04d}" * 100 for index in range(first, first + prompts)],
            "max_tokens": 200,
            "temperature": 0,
            "ignore_eos": True,
        }
        for choice in post(f"{self.engine.url}/v1/completions", body)["choices"]:
            self.texts[f"pressure {first + choice['index']}"] = choice["text"]
            self.sent += 1

    def load_adapters(self) -> None:
        for name, path in self.engine.adapters[:2]:
            url = f"{self.engine.url}/v1/load_lora_adapter"
            request = urllib.request.Request(
                url,
                json.dumps({"lora_name": name, "lora_path": path}).encode(),
                {"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=60).close()

    def page(self) -> str:
        with urllib.request.urlopen(f"{self.engine.url}/metrics", timeout=30) as reply:
            return str(reply.read().decode())


def number(page: str, name: str) -> float:
    """Sum over the series of a name."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name + "{"))


def serve(folder: Path, variables: dict[str, str]) -> Iterator[tuple[RunningEngine, Path]]:
    folder.mkdir(exist_ok=True)
    log = folder / "vllm.log"
    engine = start_vllm(
        log,
        block_size=BLOCK_SIZE,
        pool_blocks=POOL_BLOCKS,
        seed=1,
        options=("--dtype", "float32"),
        variables=variables,
    )
    try:
        yield engine, log
    finally:
        engine.process.stop()


@pytest.fixture(scope="module")
def without(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a server without the patch answers."""
    for engine, _ in serve(tmp_path_factory.mktemp("without"), {"VLLM_PLUGINS": ""}):
        traffic = Traffic(engine)
        traffic.send()
    return traffic.texts


class Observed:
    """What a patched server answered, counted and wrote."""

    def __init__(
        self, traffic: Traffic, resets: dict[str, bool], page: str, records: list[dict[str, Any]]
    ) -> None:
        self.texts = traffic.texts
        self.sent = traffic.sent
        self.answers = traffic.resets
        self.resets = resets
        self.page = page
        self.records = records

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == kind]


@pytest.fixture(scope="module")
def patched(vllm_python: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Observed:
    """What a server with the patch answers, and what the patch says of it."""
    folder = tmp_path_factory.mktemp("with")
    outcomes = folder / "outcomes.jsonl"
    path = install(folder / "site", repository, "hitcurve_engine.plugin:register")
    for engine, _ in serve(folder, {"PYTHONPATH": path, "HITCURVE_OUTCOME_FILE": str(outcomes)}):
        traffic = Traffic(engine)
        resets = traffic.send()
        wait_for_outcomes(outcomes, traffic.sent)
        page = traffic.page()
    records = [json.loads(line) for line in outcomes.read_text().splitlines()]
    return Observed(traffic, resets, page, records)


def wait_for_outcomes(file: Path, requests: int) -> None:
    """Until the sums of that many requests are written; they come after their requests."""
    deadline = monotonic() + SETTLE_S
    seen = 0
    while monotonic() < deadline:
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        written = [json.loads(line) for line in lines if line.endswith("\n") and '"kind": "totals"' in line]
        if written:
            totals = written[-1]["totals"]
            seen = totals["requests"] + totals["skipped_requests"]
            if seen == requests and sum('"kind": "request"' in line for line in lines) == requests:
                return
        sleep(0.1)
    raise AssertionError(f"{seen} of {requests} requests were recorded")


def test_outputs_are_the_same_token_for_token(without: dict[str, str], patched: Observed) -> None:
    assert len(without) == 37
    assert patched.texts == without


def test_sums_of_the_ledger_are_vllms_own_counters(patched: Observed) -> None:
    outcomes = [record for record in patched.of_kind("request") if record["status"] == "looked_up"]
    for field, name in (("query_tokens", "queries"), ("hit_tokens", "hits")):
        assert sum(outcome[field] for outcome in outcomes) == number(
            patched.page, f"vllm:prefix_cache_{name}_total"
        )
    preemptions = sum(record["preemptions"] for record in patched.of_kind("request"))
    assert preemptions == number(patched.page, "vllm:num_preemptions_total")
    assert preemptions > 0, "the pressure was too low to preempt anything"
    totals = patched.of_kind("totals")[-1]
    assert totals["totals"]["query_tokens"] == sum(outcome["query_tokens"] for outcome in outcomes)
    assert (totals["status"]["errors"], totals["status"]["dropped_events"]) == ({}, 0)


def test_miss_reasons_sum_to_the_query_of_every_request(patched: Observed) -> None:
    requests = patched.of_kind("request")
    assert len(requests) == patched.sent
    assert {request["status"] for request in requests} == {"looked_up", "skipped"}
    assert sum(request["status"] == "skipped" for request in requests) == 2
    seen: dict[str, int] = {}
    isolated: dict[str, int] = {}
    for request in requests:
        assert request["anomalies"] == []
        if request["status"] == "skipped":
            continue
        assert request["hit_tokens"] + sum(request["miss_tokens"].values()) == request["query_tokens"], request
        for reason, tokens in request["miss_tokens"].items():
            seen[reason] = seen.get(reason, 0) + tokens
        for kind, tokens in request["isolated_by"].items():
            isolated[kind] = isolated.get(kind, 0) + tokens
    assert min(seen["compulsory"], seen["tail"], seen["isolated"], seen["reset"]) > 0, seen
    assert set(isolated) == {"adapter", "salt"}
    assert {request["adapter"] for request in requests} == {None, "alpha", "beta"}
    assert sum(request["context"]["salted"] for request in requests) == 4


def test_the_first_token_of_every_request_is_timed_by_what_was_found(patched: Observed) -> None:
    counted = "hitcurve_engine_first_token_seconds_count"
    assert number(patched.page, counted) == number(patched.page, "vllm:request_success_total") == patched.sent
    found = dict(re.findall(rf'^{counted}{{.*found="(\w+)".*}} (\S+)$', patched.page, re.MULTILINE))
    assert found.keys() >= {"none", "most"}
    seconds = number(patched.page, "hitcurve_engine_first_token_seconds_sum")
    assert 0 < seconds <= number(patched.page, "vllm:time_to_first_token_seconds_sum")


def test_resets_are_told_apart(patched: Observed) -> None:
    assert patched.resets == {"idle": True, "running": False, "by force": True}
    assert [reset["ok"] for reset in patched.of_kind("reset")] == patched.answers


def test_the_engine_is_known(patched: Observed) -> None:
    (engine,) = patched.of_kind("engine")
    assert (engine["block_size"], engine["pool_blocks"], engine["groups"]) == (BLOCK_SIZE, POOL_BLOCKS, 1)
    assert (engine["model_name"], engine["engine_index"], engine["has_connector"]) == ("tiny", 0, False)


def test_no_salt_and_no_text_is_written(patched: Observed) -> None:
    written = json.dumps(patched.records)
    assert "The same beginning" not in written
    assert '"one"' not in written


def test_a_fault_in_a_hook_leaves_the_service_alone(
    without: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    path = install(tmp_path / "site", repository, "planted_fault:register")
    for engine, log in serve(tmp_path / "server", {"PYTHONPATH": path}):
        traffic = Traffic(engine)
        assert traffic.send() == {"idle": True, "running": False, "by force": True}
        assert traffic.texts == without
        said = [line for line in log.read_text().splitlines() if "the engine patch is off" in line]
        assert len(said) == 1, said
        assert "planted" in said[0]
