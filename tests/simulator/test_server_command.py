"""``hitcurve engine`` as a process."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

COMMAND = [sys.executable, "-m", "hitcurve", "engine"]
DEADLINE_S = 30


def refused(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of an engine that does not start."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def engine() -> Iterator["subprocess.Popen[str]"]:
    # 4 raw blocks are 3 usable ones (case SIM-15): just enough
    arguments = ["--port", "0", "--block-size", "256", "--num-gpu-blocks-override", "4", "--max-model-len", "768"]
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def url_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on http://127.0.0.1:")
    return line.removeprefix("listening on ").strip()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_serves_on_the_port_it_prints_and_ends_on_a_signal(
    engine: "subprocess.Popen[str]", number: signal.Signals, code: int
) -> None:
    url = url_of(engine)
    body = json.dumps({"prompt": "hello", "max_tokens": 2}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        assert json.load(answer)["usage"]["total_tokens"] == 7
    held = json.dumps({"prompt": "hello", "max_tokens": 500, "ignore_eos": True, "stream": True}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", held, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        answer.readline()
        engine.send_signal(number)
        out, err = engine.communicate(timeout=DEADLINE_S)
    said = "hitcurve: interrupted.\n" if number is signal.SIGINT else ""
    assert (engine.returncode, out, err) == (code, "", said)


def test_a_host_that_is_none() -> None:
    code, out, err = refused("--host", "256.0.0.1")
    assert (code, out) == (3, "")
    assert err.startswith("hitcurve: cannot listen on 256.0.0.1:")
    assert "Unknown error" not in err


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = refused("--port", str(port))
    assert (code, out) == (3, "")
    assert err == (
        f"hitcurve: cannot listen on 127.0.0.1:{port} (Address already in use); "
        "choose another --port (0 takes a free one) or --host.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--max-model-len", "4096", "--block-size", "32", "--pool-blocks", "127"],
            "one request of --max-model-len 4096 tokens needs 128 blocks of 32 and the pool has 127 usable ones "
            "(block 0 of 128 is reserved); enlarge the pool or lower --max-model-len to 4064.",
        ),
        (
            # case SIM-15: the raw count of 4 blocks leaves 3, too few for a request of 4 blocks
            ["--max-model-len", "64", "--block-size", "16", "--num-gpu-blocks-override", "4"],
            "one request of --max-model-len 64 tokens needs 4 blocks of 16 and the pool has 3 usable ones "
            "(block 0 of 4 is reserved); enlarge the pool or lower --max-model-len to 48.",
        ),
        (
            ["--pool-blocks", "600", "--num-gpu-blocks-override", "601"],
            "--pool-blocks and --num-gpu-blocks-override say the same in two ways; give one of them "
            "(--pool-blocks N is --num-gpu-blocks-override N+1).",
        ),
        (
            ["--port", "70000"],
            "Invalid value for '--port': Input should be less than or equal to 65535; "
            "see 'hitcurve engine --help'.",
        ),
        (["--rules", "magic"], "--rules: there are no rules called 'magic'; there are: vllm."),
        (["--version", "new"], "--version: 'new' is no vLLM version such as 0.32.0."),
        (
            ["--version", "0.9.2"],
            "there is no /metrics page of vLLM 0.9.2 here; --version takes 0.8.x or a version from 0.12 on, "
            "such as 0.32.0.",
        ),
        (["--speed", "inf"], "--speed inf is not a finite number; give one."),
        (
            ["--prefill-us-per-token", "inf"],
            "--prefill-us-per-token inf is not a finite number; give one.",
        ),
        (
            ["--pool-blocks", "99999999999"],
            "a pool of 99999999999 blocks would not fit in memory once it is used; "
            "--pool-blocks takes at most 10000000.",
        ),
    ],
)
def test_settings_that_cannot_work(arguments: list[str], sentence: str) -> None:
    assert refused("--port", "0", *arguments) == (2, "", f"hitcurve: {sentence}\n")
