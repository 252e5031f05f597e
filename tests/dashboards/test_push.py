"""Pushing, against a strict stand-in that knows Grafana's documented answers. Never run against a live Grafana."""

import json
import os
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hitcurve_dashboards.boards import DASHBOARDS
from hitcurve_dashboards.grafana.document import as_document

TOKEN = "glsa_secret"
UIDS = [dashboard.uid for dashboard in DASHBOARDS]
Answer = tuple[int, Any]


class StandIn:
    """Folders, dashboards and annotations; any call that Grafana does not document is answered with 400."""

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.annotations: list[dict[str, Any]] = []
        self.writes = 0
        self.status = 0
        self.moved_to = ""
        self.page = b""
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(stand_in.get(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.headers["Content-Type"] != "application/json":
                    self._answer((400, {"message": "bad content type"}))
                else:
                    stand_in.writes += 1
                    self._answer(stand_in.post(self.path, body))

            def _answer(self, answer: Answer) -> None:
                if stand_in.moved_to:
                    self.send_response(307)
                    self.send_header("Location", stand_in.moved_to + self.path)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    answer = (401, {"message": "Invalid API key"})
                status, value = (stand_in.status, {"message": "out of order"}) if stand_in.status else answer
                body = stand_in.page or json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def get(self, path: str) -> Answer:
        parts = urllib.parse.urlsplit(path)
        kind, _, uid = parts.path.rpartition("/")
        if kind == "/api/folders":
            found = self.folders.get(uid)
            return (200, {"uid": uid, "title": found}) if found else (404, {"message": "folder not found"})
        if kind == "/api/dashboards/uid":
            kept = self.dashboards.get(uid)
            return (200, kept) if kept else (404, {"message": "Dashboard not found"})
        if parts.path == "/api/annotations":
            query = urllib.parse.parse_qs(parts.query)
            assert query.keys() == {"from", "to", "tags", "limit"}
            tags = set(query["tags"])
            return 200, [one for one in self.annotations if tags <= set(one["tags"])]
        return 400, {"message": f"unexpected {path}"}

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        if path == "/api/folders" and body.keys() == {"uid", "title"}:
            self.folders[body["uid"]] = body["title"]
            return 200, body
        if path == "/api/dashboards/db" and body.keys() == {"dashboard", "folderUid", "message", "overwrite"}:
            return self._save(body)
        if path == "/api/annotations" and body.keys() == {"panelId", "time", "timeEnd", "tags", "text"}:
            assert body.pop("panelId") is None
            self.annotations.append(body)
            return 200, {"message": "Annotation added", "id": len(self.annotations)}
        return 400, {"message": f"unexpected {path} {sorted(body)}"}

    def _save(self, body: dict[str, Any]) -> Answer:
        document = body["dashboard"]
        uid = document["uid"]
        before = self.dashboards.get(uid)
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found"}
        if before and not body["overwrite"] and document.get("version") != before["dashboard"]["version"]:
            return 412, {"message": "The dashboard has been changed by someone else", "status": "version-mismatch"}
        version = before["dashboard"]["version"] + 1 if before else 1
        self.dashboards[uid] = {
            "dashboard": {**document, "id": len(self.dashboards) + 1, "version": version},
            "meta": {"folderUid": body["folderUid"]},
        }
        return 200, {"status": "success", "uid": uid, "version": version}


@pytest.fixture
def grafana() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    stand_in.server.shutdown()
    stand_in.server.server_close()


def run(*arguments: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hitcurve", "dashboards", *arguments]
    environment = {**os.environ, "GRAFANA_TOKEN": token}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def actions(words: str) -> list[str]:
    return [f"{uid}: {words}" for uid in UIDS]


def test_the_first_push_creates_and_the_second_changes_nothing(grafana: StandIn) -> None:
    first = run("push", "--url", grafana.url)
    assert (first.returncode, first.stdout.splitlines()) == (0, actions("created"))
    assert grafana.folders == {"hitcurve": "hitcurve"}
    for dashboard in DASHBOARDS:
        kept = dict(grafana.dashboards[dashboard.uid]["dashboard"])
        del kept["id"], kept["version"]
        assert kept == as_document(dashboard)
    writes = grafana.writes
    second = run("push", "--url", grafana.url + "/")
    assert (second.returncode, second.stdout.splitlines()) == (0, actions("unchanged"))
    assert grafana.writes == writes


def test_a_dry_run_writes_nothing(grafana: StandIn) -> None:
    shown = run("push", "--url", grafana.url, "--dry-run")
    assert (shown.returncode, shown.stdout.splitlines(), grafana.writes) == (0, actions("would create"), 0)


def test_a_change_of_somebody_else_is_shown_and_kept_until_told_otherwise(grafana: StandIn) -> None:
    run("push", "--url", grafana.url)
    theirs = grafana.dashboards["hitcurve-fleet"]["dashboard"]
    theirs["title"], theirs["version"] = "Mine", 7
    kept = run("push", "--url", grafana.url)
    assert kept.returncode == 1
    assert '- "title": "Mine",' in kept.stdout
    assert '+ "title": "hitcurve / Fleet",' in kept.stdout
    assert "hitcurve-fleet differ in Grafana and were kept; --overwrite replaces them." in kept.stderr
    assert grafana.dashboards["hitcurve-fleet"]["dashboard"]["title"] == "Mine"
    replaced = run("push", "--url", grafana.url, "--overwrite")
    assert replaced.returncode == 0
    assert "hitcurve-fleet: overwritten" in replaced.stdout
    assert grafana.dashboards["hitcurve-fleet"]["dashboard"]["title"] == "hitcurve / Fleet"
    assert grafana.dashboards["hitcurve-fleet"]["dashboard"]["version"] == 8


@pytest.mark.parametrize(
    ("status", "words"),
    [(412, "somebody else changed a dashboard meanwhile"), (500, "refuses (500): out of order.")],
)
def test_what_grafana_refuses_is_one_sentence(grafana: StandIn, status: int, words: str) -> None:
    grafana.status = status
    failed = run("push", "--url", grafana.url)
    assert failed.returncode == 3
    assert words in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_a_web_page_is_no_answer_of_grafana(grafana: StandIn) -> None:
    grafana.status, grafana.page = 502, b"<html>\n<h1>Bad gateway</h1></html>"
    ended = run("push", "--url", grafana.url)
    sentence = f"hitcurve: {grafana.url} answers with a web page (HTTP 502); is it a Grafana?\n"
    assert (ended.returncode, ended.stderr) == (3, sentence)


def test_a_wrong_token_is_named_and_not_shown(grafana: StandIn) -> None:
    failed = run("push", "--url", grafana.url, token="wrong-one")
    assert failed.returncode == 2
    assert "does not accept the token" in failed.stderr
    assert "wrong-one" not in failed.stderr
    assert run("push", "--url", grafana.url, token="").stderr.startswith("hitcurve: GRAFANA_TOKEN is not set")
    assert run("push", "--url", "file:///etc/passwd").returncode == 2
    assert run("push", "--url", "http://127.0.0.1:9").returncode == 3


def test_a_redirect_is_named_and_not_followed(grafana: StandIn) -> None:
    elsewhere = StandIn()
    grafana.moved_to = elsewhere.url
    failed = run("push", "--url", grafana.url)
    assert (failed.returncode, elsewhere.writes) == (3, 0)
    assert failed.stderr == (
        f"hitcurve: {grafana.url} redirects, and the token is not sent on; name the address it redirects to.\n"
    )
    elsewhere.server.shutdown()
    elsewhere.server.server_close()


def test_faults_of_a_chaos_run_are_marked_once(grafana: StandIn, tmp_path: Path) -> None:
    verdict = {
        "scenario": "reset-prefix-cache",
        "title": "Reset",
        "verdict": "ok",
        "seen": "It fell and came back.",
        "fault_from_s": 1796007180.5,
        "fault_to_s": 1796007200.0,
    }
    (tmp_path / "verdicts.json").write_text(json.dumps([verdict, {**verdict, "fault_from_s": None}]))
    first = run("annotate", str(tmp_path), "--url", grafana.url)
    assert (first.returncode, first.stdout) == (0, "1 faults marked, 0 were marked before\n")
    assert grafana.annotations == [
        {
            "time": 1796007180500,
            "timeEnd": 1796007200000,
            "tags": ["hitcurve-chaos", "reset-prefix-cache", "verdict:ok"],
            "text": "Reset: ok. It fell and came back.",
        }
    ]
    assert run("annotate", str(tmp_path), "--url", grafana.url).stdout == "0 faults marked, 1 were marked before\n"
    nothing = run("annotate", str(tmp_path / "nothing"), "--url", grafana.url)
    assert nothing.returncode == 2
    assert "is no run folder" in nothing.stderr
