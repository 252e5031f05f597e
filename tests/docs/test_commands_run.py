"""Every `hitcurve` command in a block of the documentation is run, page by page, in order, in one folder.

Engines and exporters are processes of the test; addresses, placeholders and lengths of runs are replaced. A
command is right where it neither ends with 2 or 3 (wrong usage, a broken environment) nor shows a bug: what it
finds is the business of other tests. What stands on several pages is run once. The tutorial has its own test.
"""

import gzip
import http.server
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
import zstandard

from hitcurve.child import ChildProcess

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 90.0
BLOCK = re.compile(r"^ *```(?:console|bash|sh)?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"\s+# .*|^# .*")
COMMAND = re.compile(r"^(?:\.venv/bin/)?hitcurve |\| hitcurve ")
SHORTER = {
    r"--duration \d+": "--duration 1",
    r"--requests 500": "--requests 12",
    r"--warm-up 200": "--warm-up 4",
    r"--speed 4": "--speed 400",
    r"runs/before runs/after": "runs/today runs/today",
    # A simulated engine has one token a byte, and no endpoint that says so.
    r"(reconcile --metrics \S+)": r"\1 --tokenizer bytes",
    r"(load overhead .*)": r"\1 --slices 2 --slice-s 0.5 --warm-up 0",
    # Scenarios take minutes; that suites and targets are understood is seen without them.
    r"(chaos run (?!.*--dry-run).*)": r"\1 --dry-run",
}
ELSEWHERE = {
    "hitcurve dashboards push": "tests/dashboards/test_push.py",
    "hitcurve dashboards annotate": "tests/dashboards/test_push.py",
    "hitcurve demo": "tests/end_to_end/test_demo.py",
}
"""Commands that another test runs; the demo takes two minutes."""
SERVICE = re.compile(r"hitcurve (engine|exporter)\b(?!.*--(check|list-faults))")
VIEW = re.compile(r"hitcurve watch\b(?!.*--(once|json))")
STREAM = re.compile(r"hitcurve watch\b(?=.*--json)(?!.*--once)")


def commands_of(page: Path) -> list[str]:
    """The commands of the page's blocks, each once, without comments, prompts and what reads their output."""
    found: dict[str, None] = {}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            command = COMMENT.sub("", line.strip().removeprefix("$ ")).replace("[", "").replace("]", "")
            if COMMAND.search(command) and not command.startswith("make "):
                found[re.sub(r"\s*\| jq .*", "", command)] = None
    return [one for one in found if not any(one.startswith(start) for start in ELSEWHERE)]


def commands_by_page() -> dict[Path, list[str]]:
    """Pages with their commands, without those of earlier pages; of drills that differ in nothing else, one."""
    pages: dict[Path, list[str]] = {}
    known: set[str] = set()
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        keys = {re.sub(r"run [a-z-]+ --targets TARGETS", "run", one): one for one in commands_of(page)}
        fresh = [command for key, command in keys.items() if key not in known]
        if fresh and page.stem != "tutorial":
            pages[page] = fresh
            known |= keys.keys()
    return pages


PAGES = commands_by_page()


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    """Answers like a Prometheus that has scraped nothing but one name."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = ["vllm:prefix_cache_queries_total"]
            data: object = names if "label" in self.path else {"resultType": "vector", "result": []}
            body = json.dumps({"status": "success", "data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory, prometheus: str) -> Iterator[Mapping[str, str]]:
    """What takes the place of the addresses and placeholders of the pages: two engines and an exporter."""
    logs = tmp_path_factory.mktemp("logs")
    hitcurve = [sys.executable, "-m", "hitcurve"]
    engine = [*hitcurve, "engine", "--port", "0", "--patched"]
    with (
        ChildProcess("a", engine, logs / "a.log") as a,
        ChildProcess("b", engine, logs / "b.log") as b,
    ):
        urls = [child.wait_listening(DEADLINE_S) for child in (a, b)]
        targets = [word for url in urls for word in ("--target", url)]
        exporter = [*hitcurve, "exporter", *targets, "--listen", "127.0.0.1:0", "--interval", "1s"]
        with ChildProcess("exporter", exporter, logs / "exporter.log") as watching:
            urls.append(watching.wait_listening(DEADLINE_S))
            first, second, third = (url.removeprefix("http://").strip("/") for url in urls)
            yield {
                "127.0.0.1:8000": first,
                "10.0.0.5:8000": first,
                "127.0.0.1:30000": first,
                "127.0.0.1:8001": second,
                "10.0.0.6:8000": second,
                "127.0.0.1:9477": third,
                "127.0.0.1:9090": prometheus,
                "ENGINE": f"http://{first}",
                "URL1": f"http://{first}",
                "URL2": f"http://{second}",
                "URL": f"http://{prometheus}",
                "HOST:PORT": "127.0.0.1:0",
                "TARGETS": "targets.yaml",
                "ADDRESS": "docs/runbooks",
                "FILE": "web.yaml",
                "DIR": "built",
            }


def row(number: int) -> str:
    return json.dumps({"messages": [{"role": "user", "content": "the same beginning " * 20 + str(number)}]})


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Path:
    """What the commands read, under the names that the pages give it."""
    log = "".join(f"{row(number)}\n" for number in range(40))
    lengths = {"input_length": 1024, "output_length": 4}
    hashed = [{"timestamp": 20 * n, **lengths, "hash_ids": [0, n]} for n in range(6)]
    (tmp_path / "conversation_trace.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in hashed))
    (tmp_path / "two.jsonl").write_text(log)
    (tmp_path / "requests.jsonl.zst").write_bytes(zstandard.compress(log.encode()))
    for name in ("log.jsonl.gz", "huge.gz"):
        (tmp_path / name).write_bytes(gzip.compress(log.encode()))
    model = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **model, "torch_dtype": "bfloat16"}))
    (tmp_path / "hitcurve.yaml").write_text("targets: [{url: http://127.0.0.1:9}]\nlisten: 127.0.0.1:0\n")
    (tmp_path / "web.yaml").write_text("{}\n")
    (tmp_path / "chaos").symlink_to(repository / "chaos")
    (known,) = yaml.safe_load((repository / "chaos/targets.simulated.yaml").read_text())["targets"]
    (tmp_path / "targets.yaml").write_text(yaml.safe_dump({"targets": [{**known, "name": "staging"}]}))
    (tmp_path / "runs" / "tonight").mkdir(parents=True)
    (tmp_path / "runs" / "tonight" / "journal.jsonl").touch()
    return tmp_path


def filled(command: str, addresses: Mapping[str, str]) -> str:
    for written, own in addresses.items():
        command = re.sub(rf"(?<![\w.]){re.escape(written)}(?!\w)", own, command)
    for longer, shorter in SHORTER.items():
        command = re.sub(longer, shorter, command)
    if command.startswith("hitcurve engine"):
        command = re.sub(r"--port \d+", "--port 0", command)
    if command.startswith("hitcurve exporter") and "--check" not in command and "--listen" not in command:
        command += " --listen 127.0.0.1:0"
    return command


def serves(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    """A service is there once it says where it listens."""
    there = ["bash", "-c", f"cd {shlex.quote(str(folder))} && exec {command}"]
    with ChildProcess("service", there, folder / "service.log", environment=environment) as service:
        service.wait_listening(DEADLINE_S)


def views(command: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """The live view, in a terminal: shown, then left with a key."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        shlex.split(command), cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as view:
        os.close(theirs)
        try:
            shown = read_until(b"Quit", ours)
            os.write(ours, b"q")
            read_until(None, ours)
            code = view.wait(DEADLINE_S)
        finally:
            view.kill()
            os.close(ours)
    return code, shown.decode(errors="replace")


def read_until(word: bytes | None, terminal: int) -> bytes:
    """What comes from a terminal up to ``word``, or up to its end without one, within the deadline."""
    shown, until_s = b"", time.monotonic() + DEADLINE_S
    while word is None or word not in shown:
        left_s = max(until_s - time.monotonic(), 0.0)
        assert left_s, f"too late, after: {shown[-400:]!r}"
        assert select.select([terminal], [], [], left_s)[0], f"too late, after: {shown[-400:]!r}"
        try:
            came = os.read(terminal, 65536)
        except OSError:
            # Linux says so where the other side has closed the terminal.
            came = b""
        if not came:
            assert word is None, f"ended without {word!r}: {shown[-400:]!r}"
            break
        shown += came
    return shown


def streams(command: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Lines of JSON until Ctrl-C, which is its end and no failure."""
    with subprocess.Popen(
        shlex.split(command), cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as stream:
        assert stream.stdout is not None
        json.loads(stream.stdout.readline())
        stream.send_signal(signal.SIGINT)
        stream.communicate(timeout=DEADLINE_S)
    return stream.returncode - 130, ""


def ends(command: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_run(page: Path, folder: Path, addresses: Mapping[str, str]) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": "1"}
    for written in PAGES[page]:
        command = filled(written, addresses)
        if SERVICE.search(command):
            serves(command, folder, environment)
            continue
        way = views if VIEW.search(command) else streams if STREAM.search(command) else ends
        code, said = way(command, folder, environment)
        assert code in (0, 1), f"{written}\nas: {command}\n{said}"
        assert "a bug in hitcurve" not in said, command


def test_what_is_run_elsewhere_is_run_there() -> None:
    for command, test in ELSEWHERE.items():
        assert re.search(rf'"{command.split()[-1]}"', (ROOT / test).read_text()), command


def test_enough_was_found() -> None:
    assert sum(map(len, PAGES.values())) > 30
