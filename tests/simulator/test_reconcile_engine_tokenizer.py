"""``hitcurve reconcile`` with the tokenizer and the chat template of the engine itself, asked at ``/tokenize``."""

import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main
from hitcurve_simulator.server.settings import EngineSettings


@pytest.fixture
def engine(engine_server: Callable[..., Any]) -> Any:
    """A simulated engine whose pool of 60 blocks is too small for the chats."""
    return engine_server(EngineSettings(num_blocks=61, max_model_len=900))


@pytest.fixture
def chats(engine: Any, tmp_path: Path) -> Path:
    """A log of four growing chats, taken in turn."""
    lines = []
    histories: list[list[dict[str, str]]] = [
        [{"role": "system", "content": f"You are helper {number}. " * 6}] for number in range(4)
    ]
    for turn in range(3):
        for number, history in enumerate(histories):
            history.append({"role": "user", "content": f"Question {turn} of {number}, in some more words?"})
            body = {"messages": list(history), "max_tokens": 20, "ignore_eos": True}
            answer = engine.call("POST", "/v1/chat/completions", body)
            lines.append({"request": body, "status": answer.status, "response": answer.json})
            history.append({"role": "assistant", "content": answer.json["choices"][0]["message"]["content"]})
    log = tmp_path / "chats.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


@pytest.fixture
def saved_page(engine: Any, tmp_path: Path) -> Iterator[str]:
    """The engine's page on a server that knows no ``/tokenize``."""
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "metrics").write_text(engine.call("GET", "/metrics").text)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


def test_chats_are_explained_to_the_token(engine: Any, chats: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["reconcile", "--metrics", f"{engine.url}/metrics", "--log", str(chats), "--json"])
    found = json.loads(capsys.readouterr().out)
    (row,) = found["rows"]
    assert (exit_.value.code, found["verdict"], row["requests"]) == (0, "ok", 12)
    assert row["hit_tokens"]["prediction"] == row["hit_tokens"]["measurement"] < row["hit_tokens"]["ceiling"]
    assert row["gap_tokens"]["unknown"] == 0


@pytest.mark.parametrize(
    ("told", "used"), [("0.31.0+cpu", "0.31.0"), ("0.34.0", "0.32.0"), ("0.33.0rc1", "0.32.0")]
)
def test_an_engine_of_a_version_without_rules_is_noted(
    told: str, used: str, chats: Path, saved_page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages" / "version").write_text(json.dumps({"version": told}))
    with pytest.raises(SystemExit):
        main(["reconcile", "--metrics", saved_page, "--log", str(chats), "--tokenizer", "bytes", "--json"])
    found = json.loads(capsys.readouterr().out)
    note = f"there are no rules for vLLM {told}, those of 0.32.0 were used; --version takes others"
    assert found["engines"][0]["version"] == used
    assert (note in found["notes"]) == (used == "0.32.0")


def test_an_engine_without_tokenize_is_named(
    chats: Path, saved_page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["reconcile", "--metrics", saved_page, "--log", str(chats)])
    said = "/tokenize answers HTTP 501; give --tokenizer bytes or the model's folder."
    assert (exit_.value.code, said in capsys.readouterr().err) == (3, True)
