"""``hitcurve exporter`` as a process: what it prints, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

COMMAND = [sys.executable, "-m", "hitcurve", "exporter"]
DEADLINE_S = 30.0
Start = Callable[..., Any]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts exporters and returns process and URL."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        with (tmp_path / f"stderr{len(running)}").open("w") as errors:
            process = subprocess.Popen(
                [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tmp_path
            )
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), (tmp_path / "stderr0").read_text()
        return process, line.removeprefix("listening on ").strip()

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE_S)
    return done.returncode, done.stdout, done.stderr


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_until_a_signal_ends_it(
    started: Start, scripted_engine: Start, page_of: Callable[..., str], number: int, code: int, tmp_path: Path
) -> None:
    engine = scripted_engine(page_of(10, 5), delay_s=60.0)
    process, url = started("--target", engine.url, "--interval", "30s", "--listen", "127.0.0.1:0")
    assert "healthy" in get(f"{url}/-/healthy")
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == code
    assert "Traceback" not in (tmp_path / "stderr0").read_text()


def test_sighup_reads_the_file_again(
    started: Start,
    scripted_engine: Start,
    page_of: Callable[..., str],
    eventually: Callable[..., Any],
    tmp_path: Path,
) -> None:
    a, b = scripted_engine(page_of(10, 5)), scripted_engine(page_of(10, 5))
    file = tmp_path / "exporter.yaml"
    settings: dict[str, Any] = {"listen": "127.0.0.1:0", "interval": "200ms", "targets": [{"url": a.url}]}
    file.write_text(yaml.safe_dump(settings))
    process, url = started("--config", str(file))
    settings["targets"].append({"url": b.url, "name": "b"})
    file.write_text(yaml.safe_dump(settings))
    process.send_signal(signal.SIGHUP)
    eventually(lambda: "hitcurve_exporter_targets 2\n" in get(f"{url}/metrics"), "the second target")
    file.write_text("interval: fast\n")
    process.send_signal(signal.SIGHUP)
    failed = "hitcurve_exporter_config_last_reload_successful 0\n"
    eventually(lambda: failed in get(f"{url}/metrics"), "the failed reload")
    assert "hitcurve_exporter_targets 2\n" in get(f"{url}/metrics")
    expected = "the old configuration stays: " + str(file) + ":1: 'interval' must be a duration"
    assert expected in (tmp_path / "stderr0").read_text()


def test_a_port_in_use_ends_with_3_and_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = run("--target", "http://127.0.0.1:9", "--listen", f"127.0.0.1:{port}")
    sentence = f"cannot listen on 127.0.0.1:{port}: the port is in use; choose another with --listen HOST:PORT."
    assert (code, out, err) == (3, "", f"hitcurve: {sentence}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to scrape; give --config FILE or --target http://HOST:PORT."),
        (
            ["--config", "a.yaml", "--target", "http://a"],
            "--config excludes --target, --source and --interval; put them into the file.",
        ),
        (
            ["--config", os.devnull],
            "/dev/null:1: the file is empty; it needs at least 'targets:' with one '- url: http://…'.",
        ),
        (
            ["--target", "http://a", "--listen", "here"],
            "--listen must be HOST:PORT such as 127.0.0.1:9477; got 'here'.",
        ),
        *(
            (["--target", url], f"--target must be an address such as http://127.0.0.1:8000; got '{url}'.")
            for url in ("http://a host:8000", "http://127.0.0.1:8000/a b")
        ),
        (
            ["--target", "user:s@cret@a:8000"],
            "--target must be an address without user name and password, since it becomes a label; "
            "got '…@a:8000'.",
        ),
        (
            ["--target", "http://a:8000", "--target", "a:8000/metrics"],
            "--target http://a:8000/metrics is given twice; give every engine once.",
        ),
        (
            ["--target", "http://a:8000", "--json"],
            "--json belongs to --check; the exporter itself answers GET /api/v1/engines in JSON.",
        ),
        (["--target", "8000"], "--target must be an address such as http://127.0.0.1:8000; got '8000'."),
    ],
)
def test_wrong_usage_ends_with_2_and_one_sentence(arguments: list[str], sentence: str) -> None:
    assert run(*arguments) == (2, "", f"hitcurve: {sentence}\n")


def test_check_tells_the_effective_configuration_of_the_example(repository: Path) -> None:
    example = repository / "exporter" / "hitcurve.example.yaml"
    code, out, err = run("--config", str(example), "--check")
    assert (code, err) == (0, "")
    assert out == (
        "The configuration is good: 2 targets every 15s, windows 30s, 1m, 5m, 1h, listening on 127.0.0.1:9477.\n"
    )
    code, out, err = run("--config", str(example), "--check", "--json")
    effective = json.loads(out)
    assert effective["targets"][0]["labels"] == [["zone", "fra1"]]
    assert effective["curve"]["step_rate"] == 0.1


def test_a_certificate_that_cannot_be_used_ends_it_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("tls_server_config: {cert_file: no.crt, key_file: no.key}\n")
    code, out, err = run("--target", "http://127.0.0.1:9", "--web.config.file", str(tmp_path / "web.yaml"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("hitcurve: cannot use the certificate ")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("--source prometheus http://127.0.0.1:9/p", "all engines that http://127.0.0.1:9/p knows"),
        ("--target http://127.0.0.1:9", "1 target"),
        ("--config discovered.yaml", "0 targets and what discovery finds"),
    ],
)
def test_check_tells_where_the_engines_come_from(
    what: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "discovered.yaml").write_text("http_sd_configs: [{url: http://127.0.0.1:9/targets}]\n")
    code, out, err = run(*what.split(), "--check")
    assert (code, out.split(" every ")[0], err) == (0, f"The configuration is good: {told}", "")


def test_the_example_shows_every_key_with_its_default(repository: Path) -> None:
    from hitcurve_exporter.configuration.load import KEYS

    text = (repository / "exporter" / "hitcurve.example.yaml").read_text()
    missing = [key for key in KEYS if f"\n{key}:" not in text and f"\n# {key}:" not in text]
    assert missing == []
