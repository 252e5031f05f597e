"""One load over several processes: nobody sends what another sends, and the parent adds everything up."""

import itertools
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

BLOCK = 16


def test_lt_12_four_workers_in_two_runs_never_share_a_first_block(engine: Any, load: Any) -> None:
    seeds = []
    for _ in range(2):
        ended = load("unique", "--host", engine.url, "--users", 8, "--requests", 400, "--processes", 4, "--json")
        assert ended.code == 0, ended.err
        assert ended.summary["requests"] == {"sent": 400, "ok": 400, "failed": 0, "unfinished": 0}
        seeds.append(ended.summary["seed"])
    assert len(engine.exchanges) == 800
    assert len({exchange.body["prompt"][:BLOCK] for exchange in engine.exchanges}) == 800
    assert seeds[0] != seeds[1]


def test_records_and_locusts_rows_come_from_all_workers(
    engine: Any, load: Any, tmp_path: Path, read_lines: Any
) -> None:
    words = ["shared-system-prompt", "--host", engine.url, "--rate", 200, "--requests", 30, "--processes", 3]
    ended = load(*words, "--groups", 1, "--prefix-tokens", 48, "--out", tmp_path, "--json")
    assert ended.code == 0, ended.err
    lines = read_lines(tmp_path / "requests.jsonl")
    assert Counter(line["worker"] for line in lines) == {1: 10, 2: 10, 3: 10}
    assert ended.summary["ttft_s"]["all"]["count"] == ended.summary["requests"]["ok"] == 30
    assert ended.summary["ttft_s"]["all"]["max"] == max(line["ttft_s"] for line in lines)
    # What is meant to be shared is shared between workers as well.
    assert len({exchange.body["prompt"][:48] for exchange in engine.exchanges}) == 1
    page = (tmp_path / "load-shared-system-prompt.html").read_text()
    rows = json.loads(page.partition("window.templateArgs = ")[2].partition("\n")[0].rstrip(";"))
    assert [row["num_requests"] for row in rows["requests_statistics"] if row["name"] == "Aggregated"] == [30]
    assert 'id="hitcurve"' in page


def test_a_signal_to_the_parent_ends_all_workers(engine: Any, start_load: Any, tmp_path: Path) -> None:
    words = ["unique", "--host", engine.url, "--rate", 50, "--duration", 300, "--processes", 2]
    process = start_load(*words, "--out", tmp_path)
    deadline = time.monotonic() + 30
    while not {"1", "2"} <= workers_seen(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    summary = json.loads((tmp_path / "load-unique.json").read_text())
    assert summary["requests"]["ok"] == len((tmp_path / "requests.jsonl").read_text().splitlines()) > 0


def workers_seen(folder: Path) -> set[str]:
    path = folder / "requests.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {str(json.loads(line)["worker"]) for line in itertools.islice(lines, 200)}


def test_several_hosts_sticky_or_scattered(engine: Any, load: Any, answers: Any) -> None:
    second = type(engine)()
    try:
        words = ["shared-system-prompt", "--host", engine.url, "--host", second.url, "--users", 1, "--seed", 3]
        sizes = ["--requests", 40, "--groups", 6, "--prefix-tokens", 32, "--json"]
        load(*words, *sizes)
        groups = [{one.body["prompt"][:32] for one in host.exchanges} for host in (engine, second)]
        assert all(groups)
        assert groups[0].isdisjoint(groups[1])
        before = len(engine.exchanges), len(second.exchanges)
        ended = load(*words, *sizes, "--spread", "scattered")
        assert len(engine.exchanges) - before[0] == len(second.exchanges) - before[1] == 20
        assert [row["client"]["known"] for row in ended.summary["both_ends"]["hosts"]] == [20, 20]
    finally:
        second.close()
