"""``hitcurve doctor`` on loopback servers that answer like vLLM, and how it finds a local process."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hitcurve.doctor.examine import examine
from hitcurve.doctor.local_process import listening_process
from hitcurve.doctor.observed import PromptLengths
from hitcurve.errors import EnvironmentFailed

Serve = Callable[[dict[str, str]], str]

PATCHED = """# TYPE hitcurve_engine_active gauge
hitcurve_engine_active{engine="0",model_name="tiny"} 1
# TYPE hitcurve_engine_miss_tokens_total counter
hitcurve_engine_miss_tokens_total{engine="0",model_name="tiny",adapter="",reason="capacity"} 30
hitcurve_engine_miss_tokens_total{engine="0",model_name="tiny",adapter="sql",reason="capacity"} 12
hitcurve_engine_miss_tokens_total{engine="0",model_name="tiny",adapter="",reason="tail"} 5
"""
MODELS = {"data": [{"id": "tiny", "parent": None}, {"id": "sql", "parent": "tiny"}]}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server with answers by path; 405 for what starts with '405'."""
    servers = []

    def start(answers: dict[str, str]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = answers.get(self.path)
                body = (answer or "").encode()
                self.send_response(404 if answer is None else 405 if answer == "405" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def vllm_page(repository: Path) -> str:
    """A page that a real vLLM 0.32.0 printed."""
    return (repository / "tests" / "core" / "vllm_0.32.0_page.prom").read_text()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hitcurve", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "80"})


def test_what_is_seen_of_a_real_page(serve: Serve, vllm_page: str) -> None:
    url = serve(
        {
            "/metrics": vllm_page + PATCHED,
            "/version": '{"version": "0.32.0+cpu"}',
            "/v1/models": json.dumps(MODELS),
            "/reset_prefix_cache": "405",
        }
    )
    (replica,) = examine([url], prometheus=None, timeout_s=5).replicas
    (engine,) = replica.engines
    assert (replica.loopback, replica.version_numbers, replica.models, replica.adapters, replica.paths) == (
        True,
        (0, 32, 0),
        frozenset({"tiny"}),
        frozenset({"sql"}),
        frozenset({"/reset_prefix_cache"}),
    )
    assert engine.config["prefix_caching_hash_algo"] == "sha256"
    assert engine.prompts is not None
    assert (engine.prompts.requests, engine.prompts.tokens, engine.prompts.share_at_most(128)) == (
        8.0,
        1000.0,
        0.75,
    )
    assert engine.patch == {"hitcurve_engine_active": 1.0, "hitcurve_engine_miss_tokens_total": 47.0}
    assert engine.patch_reasons == {"capacity": 42.0, "tail": 5.0}
    assert replica.process is not None
    assert (replica.process.pid, replica.process.listens_on) == (os.getpid(), frozenset({"127.0.0.1"}))


def test_the_command_ends_with_0_where_nothing_is_wrong(serve: Serve, vllm_page: str) -> None:
    ended = run(serve({"/metrics": vllm_page, "/version": '{"version": "0.32.0"}'}))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("verdict: ok\n")
    lines = ended.stdout.splitlines()
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)
    # What is found stands below its headline, which wraps nothing.
    assert lines[0].split() == ["note", "patch-loaded", lines[0].split()[-1]]
    assert lines[1] == "    the engine patch is not loaded, so misses have no reasons"


def test_a_planted_defect_is_the_only_thing_named(serve: Serve, vllm_page: str) -> None:
    good = serve({"/metrics": vllm_page, "/version": '{"version": "0.32.0"}'})
    off = vllm_page.replace('enable_prefix_caching="True"', 'enable_prefix_caching="False"')
    bad = serve({"/metrics": off, "/version": '{"version": "0.32.0"}'})
    ended = run(bad, good, "--json")
    assert ended.returncode == 1
    assert ended.stderr == "hitcurve: 2 things to mend; each has its cure above.\n"
    document = json.loads(ended.stdout)
    wrong = {
        check["id"]: [found["where"] for found in check["findings"] if found["severity"] != "note"]
        for check in document["checks"]
    }
    assert {check: where for check, where in wrong.items() if where} == {
        "caching-off": [[bad.removeprefix("http://")]],
        "replicas-disagree": [sorted([bad.removeprefix("http://"), good.removeprefix("http://")])],
    }


def test_nobody_there_is_no_data(serve: Serve) -> None:
    ended = run("127.0.0.1:9", "--json")
    assert (ended.returncode, json.loads(ended.stdout)["verdict"]) == (3, "no_data")
    assert ended.stderr == "hitcurve: 127.0.0.1:9 cannot be judged: connection refused; check the address.\n"


def test_sarif_is_printed_on_demand(serve: Serve, vllm_page: str) -> None:
    ended = run(serve({"/metrics": vllm_page}), "--format", "sarif")
    assert json.loads(ended.stdout)["version"] == "2.1.0"


def test_names_are_asked_of_a_prometheus(serve: Serve, vllm_page: str) -> None:
    names = '{"status": "success", "data": ["up", "vllm_prefix_cache_queries_total"]}'
    prometheus = serve({"/api/v1/label/__name__/values": names})
    fleet = examine([serve({"/metrics": vllm_page})], prometheus=prometheus, timeout_s=5)
    assert fleet.prometheus_names == frozenset({"up", "vllm_prefix_cache_queries_total"})
    with pytest.raises(EnvironmentFailed, match="does not answer like a Prometheus: HTTP 404"):
        examine([prometheus], prometheus=serve({}), timeout_s=5)


def test_wrong_usage_is_one_sentence() -> None:
    assert run().stderr == "hitcurve: no engine is named; write hitcurve doctor http://HOST:PORT.\n"
    assert run("127.0.0.1:1", "--timeout", "0").returncode == 2
    listed = run("--list-checks")
    assert (listed.returncode, listed.stdout.splitlines()[1].split()[0]) == (0, "caching-off")
    as_json = json.loads(run("--list-checks", "--json").stdout)
    assert [f"{check['id']:<24}{check['asks']}" for check in as_json] == listed.stdout.splitlines()


def test_a_port_nobody_listens_on_has_no_process() -> None:
    assert listening_process(9) is None


def test_addresses_of_the_kernel_are_read_in_its_byte_order(tmp_path: Path) -> None:
    little = sys.byteorder == "little"
    four = "0100007F" if little else "7F000001"
    six = "0" * 24 + ("01000000" if little else "00000001")
    (tmp_path / "net").mkdir()
    head = "  sl  local_address rem_address   st tx rx tr tm retrnsmt uid timeout inode\n"
    rest = "0:0 0A 0:0 00:0 0 0 0 7001"
    (tmp_path / "net" / "tcp").write_text(f"{head} 0: {four}:1F90 {rest}\n 1: {four}:1F91 {rest}\n")
    (tmp_path / "net" / "tcp6").write_text(f"{head} 0: {six}:1F90 {rest.replace('7001', '7002')}\n")
    process = tmp_path / "42"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to("socket:[7001]")
    (process / "environ").write_bytes(b"PYTHONHASHSEED=0\0EMPTY=\0")
    found = listening_process(8080, tmp_path)
    assert found is not None
    assert (found.pid, dict(found.environment), found.listens_on) == (
        42,
        {"PYTHONHASHSEED": "0", "EMPTY": ""},
        frozenset({"127.0.0.1", "::1"}),
    )


def test_a_share_is_read_from_below() -> None:
    prompts = PromptLengths(10.0, 100.0, {5.0: 2.0, 20.0: 8.0})
    assert [prompts.share_at_most(tokens) for tokens in (4, 5, 19, 20)] == [None, 0.2, 0.2, 0.8]
