"""How the numbers reach a page: handed over in files, by Prometheus' multiprocess mode, on an own port."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from hitcurve_engine.metrics.handoff import HANDOFF_VARIABLE
from hitcurve_engine.metrics.own_port import OwnPort
from hitcurve_engine.metrics.publishing import make_publishers
from hitcurve_engine.metrics.sink import create
from hitcurve_engine.recording.sinks import EngineFacts
from hitcurve_engine.settings import Settings

FACTS = EngineFacts(16, 100, 1, os.getpid(), 0.0, engine_index=0, model_name="tiny")

ENGINE = """
import sys, time
from hitcurve_engine.ledger import Ledger, Outcome, Totals
from hitcurve_engine.metrics.sink import create
from hitcurve_engine.recording.sinks import EngineFacts, FinishedRequest, PatchStatus, RequestContext
import os

index, requests = int(sys.argv[1]), int(sys.argv[2])
sink = create(EngineFacts(16, 100, 1, os.getpid(), 0.0, index, "tiny", hash_root="0a1b2c3d"))
misses = dict.fromkeys(("capacity", "reset", "isolated", "tail", "stranded"), 0) | {"compulsory": 10}
for number in range(requests):
    outcome = Outcome("r", "looked_up", 30, query_tokens=30, hit_tokens=20, miss_tokens=misses, lookups=number)
    sink.request_finished(FinishedRequest(outcome, RequestContext()))
    sink.tick(PatchStatus(), Totals(resets=number))
print("ready", flush=True)
sys.stdin.readline()
"""

FRONT_END = """
import os, subprocess, sys
from hitcurve_engine.metrics.front_end import prepare_front_end
prepare_front_end(os.environ)
prepare_front_end(os.environ)
folder = os.environ["HITCURVE_METRICS_HANDOFF"]
assert not os.path.exists(folder)
assert "prometheus_client" not in sys.modules
import prometheus_client
# As vLLM does (0.8.5 to 0.23) while it builds its own metrics.
for collector in list(prometheus_client.REGISTRY._collector_to_names):
    if hasattr(collector, "_name") and "vllm" in collector._name:
        prometheus_client.REGISTRY.unregister(collector)
engines = [subprocess.Popen([sys.executable, "-c", sys.argv[1], str(index), "3"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True) for index in (0, 1)]
for engine in engines:
    assert engine.stdout.readline() == "ready\\n"
print(folder)
print(prometheus_client.generate_latest().decode())
for engine in engines:
    engine.communicate("end")
assert "hitcurve_engine" not in prometheus_client.generate_latest().decode()
assert os.path.isdir(folder)
"""


def lines(text: str, name: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith(f"hitcurve_engine_{name}"))


EXPECTED_QUERIES = [
    'hitcurve_engine_query_tokens_total{adapter="",engine="0",model_name="tiny"} 90.0',
    'hitcurve_engine_query_tokens_total{adapter="",engine="1",model_name="tiny"} 90.0',
]


def test_the_front_end_shows_what_living_engines_hand_over_and_leaves_nothing_behind() -> None:
    environment = {name: value for name, value in os.environ.items() if name != HANDOFF_VARIABLE}
    environment.pop("PROMETHEUS_MULTIPROC_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", FRONT_END, ENGINE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    folder, _, text = done.stdout.partition("\n")
    assert [label_sorted(line) for line in lines(text, "query_tokens_total")] == EXPECTED_QUERIES
    assert len(lines(text, "resets_total")) == 2
    assert "python_info" in text
    assert not Path(folder).exists()


CHILD = """
import os
from hitcurve_engine.metrics.front_end import prepare_front_end

def show():
    prepare_front_end(os.environ)
    print(os.environ["HITCURVE_METRICS_HANDOFF"], flush=True)
"""

FAMILY = """
import multiprocessing, subprocess, sys
from child import show

if __name__ == "__main__":
    show()
    for method in ("spawn", "fork"):
        process = multiprocessing.get_context(method).Process(target=show)
        process.start()
        process.join()
    subprocess.run([sys.executable, "-c", "from child import show; show()"], check=True)
"""


def test_what_an_engine_inherits_another_server_does_not(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "family.py").write_text(FAMILY)
    done = subprocess.run(
        [sys.executable, "family.py"],
        cwd=tmp_path,
        env=os.environ | {HANDOFF_VARIABLE: "/somebody/elses", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    parent, spawned, forked, server = done.stdout.split()
    assert parent == spawned == forked
    assert len({parent, server, "/somebody/elses"}) == 3


def label_sorted(line: str) -> str:
    name, _, rest = line.partition("{")
    labels, _, value = rest.partition("}")
    return f"{name}{{{','.join(sorted(labels.split(',')))}}}{value}"


PAGE = """
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def run_engines(folder: Path, counts: list[tuple[int, int]]) -> str:
    """Engines one after the other in Prometheus' multiprocess mode, then the page as an API server builds it."""
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)}
    for index, requests in counts:
        subprocess.run(
            [sys.executable, "-c", ENGINE, str(index), str(requests)],
            env=environment,
            input="end",
            text=True,
            check=True,
            capture_output=True,
            timeout=60,
        )
    return subprocess.run(
        [sys.executable, "-c", PAGE], env=environment, text=True, check=True, capture_output=True, timeout=60
    ).stdout


def test_with_several_api_servers_each_engine_is_shown_once_with_right_sums(
    tmp_path: Path, samples: Callable[[str], dict[Any, float]]
) -> None:
    seen = samples(run_engines(tmp_path, [(0, 3), (1, 5)]))
    for index, requests in ((0, 3), (1, 5)):
        base = {("engine", str(index)), ("model_name", "tiny")}
        own = {
            (name.removeprefix("hitcurve_engine_"), dict(labels).get("le")): value
            for (name, labels), value in seen.items()
            if base | {("adapter", "")} <= labels and "reason" not in dict(labels) and "key" not in dict(labels)
        }
        assert own["requests_total", None] == requests
        assert own["query_tokens_total", None] == 30 * requests
        assert own["hit_tokens_total", None] == 20 * requests
        assert own["lookups_per_request_count", None] == requests
        assert own["lookups_per_request_sum", None] == sum(range(requests))
        assert own["lookups_per_request_bucket", "1.0"] == 2
        assert own["lookups_per_request_bucket", "2.0"] == 3
        assert own["lookups_per_request_bucket", "4.0"] == requests
        assert seen["hitcurve_engine_resets_total", frozenset(base)] == requests - 1
        assert seen["hitcurve_engine_pool_blocks", frozenset(base)] == 100


def test_multiprocess_pages_hold_the_same_samples_as_the_others(
    tmp_path: Path, played: Any, page: Any, samples: Any
) -> None:
    shared = set(samples(run_engines(tmp_path, [(0, 3)])))
    engine = played()
    engine.status.pool_curve = None
    engine.tick()
    others = set(samples(page(engine.kept.snapshot)))
    assert {name for name, _ in shared} == {name for name, _ in others}
    assert shared == others


def test_an_engine_serves_its_own_page_live(played: Any, samples: Any) -> None:
    engine = played()
    port = OwnPort(engine.tally, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{port.port}"
    try:
        engine.request(1.0, 50, 0, "abc")
        with urlopen(f"{address}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            text = answer.read().decode()
        label = frozenset({("engine", "0"), ("model_name", "tiny"), ("adapter", "")})
        assert samples(text)["hitcurve_engine_query_tokens_total", label] == 50
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}/")
    finally:
        port.close()


def test_a_port_that_is_taken_is_said_once_and_costs_nothing_else(
    played: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = played()
    taken = OwnPort(engine.tally, "127.0.0.1", 0)
    try:
        environment = {HANDOFF_VARIABLE: str(tmp_path / "handoff")}
        made = make_publishers(engine.tally, FACTS, Settings(metrics_port=taken.port), environment)
    finally:
        taken.close()
    assert [type(publisher).__name__ for publisher in made] == ["HandoffWriter"]
    (record,) = caplog.records
    assert record.getMessage().startswith(f"hitcurve: no metrics at 127.0.0.1:{taken.port} (")


def test_each_engine_has_a_port_of_its_own(played: Any) -> None:
    engine = played()
    first = OwnPort(engine.tally, "127.0.0.1", 0)
    base = first.port
    first.close()
    facts = EngineFacts(16, 100, 1, 1, 0.0, engine_index=0)
    (made,) = make_publishers(engine.tally, facts, Settings(metrics_port=base), {})
    assert isinstance(made, OwnPort)
    assert made.port == base
    made.close()


def test_there_is_no_sink_where_nobody_reads_or_nobody_wants_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PROMETHEUS_MULTIPROC_DIR", HANDOFF_VARIABLE, "HITCURVE_METRICS_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert create(FACTS) is None
    monkeypatch.setenv(HANDOFF_VARIABLE, str(tmp_path / "handoff"))
    assert create(FACTS) is not None
    monkeypatch.setenv("HITCURVE_METRICS", "off")
    assert create(FACTS) is None
