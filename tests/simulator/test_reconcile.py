"""``hitcurve reconcile``: ceiling, prediction and measurement of the same traffic, and when they prove nothing.

Longer than 300 lines because every case reconciles the same small traffic, seen through another source.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main
from hitcurve.reading import Reading, as_json
from hitcurve_simulator.server.settings import EngineSettings

Run = Callable[..., tuple[int, str, str]]
BLOCK = 16
POOL = 40


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, standard output, standard error of one call."""

    def call(*arguments: object, command: str = "reconcile") -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main([command, *map(str, arguments)])
        printed = capsys.readouterr()
        return int(exit_.value.code or 0), printed.out, printed.err

    return call


@pytest.fixture
def engine(engine_server: Callable[..., Any]) -> Any:
    """A simulated engine with a small pool, on a loopback port."""
    return engine_server(EngineSettings(block_size=BLOCK, num_blocks=POOL + 1, max_model_len=POOL * BLOCK))


def bodies(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Requests over three prefixes, two salts and two users; some prompts end with a block."""
    dice = random.Random(seed)
    prefixes = ["".join(dice.choices("abcdefgh", k=size)) for size in (96, 150, 200)]
    found = []
    for number in range(count):
        tail = "".join(dice.choices("ijklmnop", k=dice.randrange(1, 90)))
        body = {"prompt": dice.choice(prefixes) + tail, "max_tokens": dice.randrange(1, 40), "ignore_eos": True}
        body["cache_salt"], body["user"] = dice.choice(["red", "blue"]), f"user {number % 2}"
        found.append(body)
    return found


def served(engine: Any, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send the requests one after the other and log them."""
    lines = []
    for body in requests:
        answer = engine.call("POST", "/v1/completions", body)
        lines.append({"request": body, "status": answer.status, "response": json.loads(answer.text)})
    return lines


def written(file: Path, lines: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def answer(run: Run, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, err = run("--json", *arguments)
    assert out, err
    return code, json.loads(out)


def test_prediction_is_measurement_and_the_gaps_add_up(run: Run, engine: Any, tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", served(engine, bodies(60)))
    code, found = answer(run, "--metrics", engine.url, "--log", log, "--tokenizer", "bytes")
    assert (code, found["verdict"], found["reasons"], found["notes"]) == (0, "ok", [], [])
    for row in found["rows"]:
        assert row["hit_tokens"]["prediction"] == row["hit_tokens"]["measurement"]
        assert row["gap_tokens"]["unknown"] == 0
        assert row["hit_tokens"]["measurement"] + sum(row["gap_tokens"].values()) == row["query_tokens"]
    whole, *parts = found["rows"]
    assert (whole["measured_by"], whole["requests"]) == ("counters", 60)
    assert {(row["tenant"], row["measured_by"]) for row in parts} == {("user 0", "usage"), ("user 1", "usage")}
    for name in ("cold_start", "rounding_and_last_token", "isolation", "eviction"):
        assert whole["gap_tokens"][name] == sum(row["gap_tokens"][name] for row in parts) > 0
    assert whole["gap_tokens"]["concurrency"] == 0
    assert found["engines"] == [
        {
            "engine": "0",
            "rules": "vllm",
            "version": "0.32.0",
            "block_size": BLOCK,
            "pool_blocks": POOL,
            "requests": 60,
            "counted_query_tokens": whole["query_tokens"],
            "log_query_tokens": whole["query_tokens"],
            "foreign_tokens": 0,
            "counted_hit_tokens": whole["hit_tokens"]["measurement"],
            "told_cached_tokens": whole["hit_tokens"]["measurement"],
            "preemptions": 0,
            "problems": [],
        }
    ]


def test_ceiling_and_prediction_are_what_simulate_says(run: Run, engine: Any, tmp_path: Path) -> None:
    requests = [{**body, "max_tokens": 1} for body in bodies(40)]
    log = written(tmp_path / "log.jsonl", served(engine, requests))
    _, found = answer(run, "--metrics", engine.url, "--log", log, "--tokenizer", "bytes")
    tokens = [{"token_ids": list(body["prompt"].encode()), "cache_salt": body["cache_salt"]} for body in requests]
    trace = written(tmp_path / "trace.jsonl", tokens)
    simulated = {}
    for pool in ("unlimited", str(POOL)):
        _, out, _ = run(trace, "--block-size", BLOCK, "--pool-blocks", pool, "--json", command="simulate")
        simulated[pool] = json.loads(out)
    (row,) = found["rows"][:1]
    assert row["hit_tokens"]["ceiling"] == simulated["unlimited"]["hit_tokens"]
    assert row["hit_tokens"]["prediction"] == simulated[str(POOL)]["hit_tokens"]
    misses = simulated["unlimited"]["miss_tokens"]
    assert row["gap_tokens"]["cold_start"] == misses["compulsory"]
    assert row["gap_tokens"]["isolation"] == misses["isolated"]
    assert row["gap_tokens"]["rounding_and_last_token"] == misses["tail"]


def test_what_came_before_warms_the_cache(run: Run, engine: Any, tmp_path: Path) -> None:
    warm = written(tmp_path / "warm.jsonl", served(engine, bodies(20)))
    before = tmp_path / "before.prom"
    before.write_text(engine.call("GET", "/metrics").text)
    log = written(tmp_path / "log.jsonl", served(engine, bodies(30)))
    options = ("--before", before, "--metrics", engine.url, "--log", log, "--tokenizer", "bytes")
    code, found = answer(run, *options, "--warm", warm)
    assert (code, found["verdict"], found["warm_requests"], found["requests"]) == (0, "ok", 20, 30)
    assert found["rows"][0]["gap_tokens"]["unknown"] == 0
    code, found = answer(run, *options, "--pool-blocks", "unlimited", "--tolerance", "0.01")
    assert (code, found["verdict"]) == (1, "bad")
    assert "more than 0.01" in found["reasons"][0]


def test_a_command_makes_the_traffic_between_two_readings(run: Run, engine: Any, tmp_path: Path) -> None:
    served(engine, bodies(5, seed=7))
    log = tmp_path / "log.jsonl"
    script = (
        "import json, sys, time, urllib.request\n"
        "body = {'prompt': 'x' * 100, 'max_tokens': 1}\n"
        "with open(sys.argv[2], 'w') as log:\n"
        "    for _ in range(3):\n"
        "        at_s = time.time()\n"
        "        request = urllib.request.Request(sys.argv[1] + '/v1/completions', json.dumps(body).encode(),\n"
        "                                         {'Content-Type': 'application/json'})\n"
        "        with urllib.request.urlopen(request) as answer:\n"
        "            line = {'at_s': at_s, 'request': body, 'status': 200, 'response': json.load(answer)}\n"
        "        log.write(json.dumps(line) + chr(10))\n"
    )
    options = ("--metrics", engine.url, "--log", log, "--tokenizer", "bytes")
    code, found = answer(run, *options, "--", "python3", "-c", script, engine.url, log)
    assert (code, found["verdict"], found["requests"]) == (0, "ok", 3)
    assert found["rows"][0]["hit_tokens"] == {"ceiling": 192, "prediction": 192, "measurement": 192.0}
    code, found = answer(run, *options, "--", "python3", "-c", f"{script}\nsys.exit(4)", engine.url, log)
    assert (code, found["verdict"]) == (1, "invalid")
    assert found["reasons"][0] == "the command 'python3' ended with exit code 4"
    code, _, err = run(*options, "--", "no-such-command")
    assert (code, "'no-such-command' cannot be run" in err) == (3, True)


def test_foreign_traffic_and_failures_prove_nothing(run: Run, engine: Any, tmp_path: Path) -> None:
    lines = served(engine, bodies(20))
    lines += served(engine, [{"prompt": "y" * 9000, "max_tokens": 1}])
    log = written(tmp_path / "log.jsonl", lines)
    options = ("--metrics", engine.url, "--log", log, "--tokenizer", "bytes")
    code, found = answer(run, *options)
    assert (code, found["verdict"], found["failed_requests"]) == (1, "invalid", 1)
    assert found["reasons"] == ["1 of 21 requests failed (1 of them: HTTP 400)"]
    log = written(tmp_path / "log.jsonl", lines[:-1])
    assert answer(run, *options)[1]["verdict"] == "ok"
    served(engine, bodies(1, seed=5))
    code, found = answer(run, *options)
    assert (code, found["verdict"]) == (1, "invalid")
    assert "foreign traffic" in found["reasons"][0]
    # What another client hit cannot be subtracted from what this log predicts.
    assert found["rows"][0]["gap_points"]["unknown"] is None


def test_a_client_that_keeps_counts_only_has_no_prediction(run: Run, engine: Any, tmp_path: Path) -> None:
    lines = served(engine, bodies(10))
    counts = [
        {
            "at_s": 1.0 + number,
            "model": "m",
            "outcome": "ok",
            "status": 200,
            "prompt_tokens": line["response"]["usage"]["prompt_tokens"],
            "cached_tokens": line["response"]["usage"]["prompt_tokens_details"]["cached_tokens"],
        }
        for number, line in enumerate(lines)
    ]
    log = written(tmp_path / "requests.jsonl", counts)
    code, found = answer(run, "--metrics", engine.url, "--log", log)
    assert (code, found["verdict"]) == (1, "no_data")
    assert "10 of 10 requests cannot be replayed (the first" in found["reasons"][0]
    row = found["rows"][0]
    assert (row["ceiling"], row["prediction"], row["measurement"] is None) == (None, None, False)
    assert found["engines"][0]["foreign_tokens"] == 0


def test_another_tokenizer_is_named(run: Run, engine: Any, tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", served(engine, bodies(4)))
    code, found = answer(run, "--metrics", engine.url, "--log", log, "--tokenizer", "pieces")
    assert (code, found["verdict"]) == (1, "invalid")
    assert "4 of 4 prompts have another length than the engine counted" in found["reasons"][0]


def test_tables_and_page(run: Run, engine: Any, tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", served(engine, bodies(20)))
    page = tmp_path / "rows.html"
    code, out, _ = run("--metrics", engine.url, "--log", log, "--tokenizer", "bytes", "--html", page)
    assert code == 0
    for said in ("ceiling", "prediction", "measurement", "engine 0, tenant user 0", "verdict: ok"):
        assert said in out
    assert "cold start" in out
    html = page.read_text()
    assert html.count('class="bar"') == 3
    assert "http" not in html.replace("http-equiv", "")


PAGE = """vllm:prefix_cache_queries_total{{engine="0"}} {queries}
vllm:prefix_cache_hits_total{{engine="0"}} {hits}
vllm:cache_config_info{{engine="0",block_size="16",num_gpu_blocks="41"}} 1
process_start_time_seconds {start}
"""


def pages(folder: Path, *values: tuple[float, float, float]) -> list[Path]:
    files = []
    for number, (queries, hits, start) in enumerate(values):
        file = folder / f"{number}.prom"
        file.write_text(PAGE.format(queries=queries, hits=hits, start=start))
        files.append(file)
    return files


LOG = [{"token_ids": list(range(40))}, {"token_ids": list(range(40))}]


@pytest.mark.parametrize(
    ("first", "last", "verdict", "reason"),
    [
        ((1000, 100, 5), (1080, 132, 5), "ok", None),
        ((1000, 100, 5), (80, 32, 9), "invalid", "engine 0: it restarted meanwhile"),
        ((1000, 100, 5), (1080, 100, 5), "bad", "engine 0: predicted 40.00%, measured 0.00%"),
        ((1000, 100, 5), (1000, 100, 5), "invalid", "requests of the log that it did not serve"),
        ((1000, 100, 5), (1160, 132, 5), "invalid", "foreign traffic"),
    ],
)
def test_two_recorded_pages(
    run: Run, tmp_path: Path, first: Any, last: Any, verdict: str, reason: str | None
) -> None:
    before, after = pages(tmp_path, first, last)
    log = written(tmp_path / "log.jsonl", LOG)
    code, found = answer(run, "--before", before, "--after", after, "--log", log)
    assert (code, found["verdict"]) == (int(verdict != "ok"), verdict)
    assert reason is None or any(reason in said for said in found["reasons"])


def test_recorded_scrapes_have_a_window(run: Run, tmp_path: Path) -> None:
    files = pages(tmp_path, (1000, 100, 5), (1040, 100, 5), (1080, 132, 5))
    manifest = [
        {"at_s": 100.0 * number, "target": "http://e/metrics", "status": 200, "file": file.name}
        for number, file in enumerate(files, 1)
    ]
    (tmp_path / "scrapes.json").write_text(json.dumps(manifest))
    times = (50.0, 150.0, 250.0, 350.0)
    other = {"token_ids": list(range(100, 140))}
    rows = [other, *LOG, other]
    log = written(tmp_path / "log.jsonl", [{**row, "at_s": at} for row, at in zip(rows, times, strict=True)])
    code, found = answer(run, "--recorded", tmp_path, "--log", log)
    assert (code, found["verdict"], found["requests"], found["warm_requests"]) == (0, "ok", 2, 1)
    assert found["rows"][0]["hit_tokens"] == {"ceiling": 32, "prediction": 32, "measurement": 32.0}
    assert "1 requests were sent after the counters were read and are left out" in found["notes"]


def test_the_readings_of_a_run_folder_are_counters_too(run: Run, tmp_path: Path) -> None:
    def reading(at_s: float, queries: float, hits: float, **more: Any) -> dict[str, Any]:
        values = Reading(
            target="http://e/metrics",
            engine="0",
            at_s=at_s,
            up=True,
            query_tokens_total=queries,
            hit_tokens_total=hits,
            block_size=16,
            pool_blocks=41,
            **more,
        )
        return as_json(values)

    file = tmp_path / "readings.jsonl"
    log = written(tmp_path / "log.jsonl", LOG)
    written(file, [reading(1.0, 500, 20), reading(2.0, 540, 20), reading(3.0, 580, 52)])
    code, found = answer(run, "--recorded", tmp_path, "--log", log)
    assert (code, found["verdict"]) == (0, "ok")
    assert found["rows"][0]["hit_tokens"] == {"ceiling": 32, "prediction": 32, "measurement": 32.0}
    assert found["engines"][0]["pool_blocks"] == 40
    written(file, [reading(1.0, 500, 20), reading(3.0, 580, 52, resets_total=1)])
    code, found = answer(run, "--recorded", tmp_path, "--log", log)
    assert (code, found["reasons"]) == (1, ["engine 0: its prefix cache was reset meanwhile"])
    written(file, [reading(1.0, 500, 20)])
    code, _, err = run("--recorded", tmp_path, "--log", log)
    assert (code, "holds 1 good readings" in err) == (2, True)


def test_several_engines_need_to_know_who_served_what(run: Run, tmp_path: Path) -> None:
    (file,) = pages(tmp_path, (40, 0, 5))
    text = file.read_text().replace("process_start_time_seconds 5\n", "")
    file.write_text(text + text.replace('engine="0"', 'engine="1"'))
    log = written(tmp_path / "log.jsonl", LOG)
    code, found = answer(run, "--after", file, "--log", log)
    assert (code, found["verdict"]) == (1, "no_data")
    assert "give its lines a field 'engine'" in found["reasons"][0]
    log = written(tmp_path / "log.jsonl", [{**LOG[0], "engine": "0"}, {**LOG[1], "engine": "1"}])
    code, found = answer(run, "--after", file, "--log", log)
    assert (code, [(row["engine"], row["prediction"]) for row in found["rows"]]) == (0, [("0", 0.0), ("1", 0.0)])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "give either --metrics URL"),
        (["--metrics", "ftp://h"], "--metrics: 'ftp://h' is not an address; write http://HOST:PORT."),
        (["--metrics", "http://me:hunter2@h"], "--metrics: an address holds a user name or password;"),
        (["--metrics", "http://127.0.0.1:9/metrics"], "cannot be read"),
        (["--recorded", "DIR", "--metrics", "http://h"], "--recorded has both readings"),
        (["--after", "/nowhere.prom"], "No such file or directory; give a saved /metrics page."),
        (["--recorded", "DIR"], "No such file or directory; give one with it or scrapes.json."),
        (["--after", "PAGE", "--rules", "lru"], "--rules is 'lru'; give one of"),
        (["--after", "PAGE", "--tokenizer", "engine"], "--tokenizer engine asks the engine"),
        (["--after", "PAGE", "--pool-blocks", "0"], "--pool-blocks is '0'"),
        (["--after", "PAGE", "--", "true"], "a command is run between two readings"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Run, tmp_path: Path, options: list[str], sentence: str) -> None:
    (page,) = pages(tmp_path, (80, 32, 5))
    log = written(tmp_path / "log.jsonl", LOG)
    named = {"PAGE": str(page), "DIR": str(tmp_path)}
    code, out, err = run("--log", log, *[named.get(word, word) for word in options])
    assert (code in (2, 3), out) == (True, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
