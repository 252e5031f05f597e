"""``hitcurve load`` as a person runs it, against an engine on loopback."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

NOBODY = "http://127.0.0.1:1"


def wait_until(true: Any, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_writes_requests_summary_and_report(engine: Any, load: Any, tmp_path: Path, read_lines: Any) -> None:
    ended = load(
        *("shared-system-prompt", "--host", engine.url, "--rate", 200, "--requests", 40, "--seed", 7),
        *("--groups", 2, "--prefix-tokens", 48, "--suffix-tokens", 16, "--output-tokens", 2, "--out", tmp_path),
    )
    assert ended.code == 0, ended.err
    assert ended.err == "intended: 71.6 % of the prompt tokens are shared\n"
    assert "40 requests ok, 0 failed" in ended.out
    assert "seed 7" in ended.out
    assert "verdict: ok" in ended.out
    lines = read_lines(tmp_path / "requests.jsonl")
    assert len(lines) == 40
    assert lines[0].keys() == {
        *("at_s", "load", "profile", "group", "model", "status", "outcome", "reason", "ttft_s", "tpot_s"),
        *("duration_s", "prompt_tokens", "completion_tokens", "cached_tokens", "late_s"),
        *("first_content_s", "number", "worker", "queue_s"),
    }
    summary = json.loads((tmp_path / "load-shared-system-prompt.json").read_text())
    assert summary["requests"] == {"sent": 40, "ok": 40, "failed": 0, "unfinished": 0}
    assert (summary["verdict"], summary["reasons"], summary["seed"]) == ("ok", [], 7)
    assert summary["models"] == ["tiny"]
    assert summary["ttft_s"]["all"]["max"] == max(line["ttft_s"] for line in lines)
    assert "<html" in (tmp_path / "load-shared-system-prompt.html").read_text()
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_sent(engine: Any, load: Any) -> None:
    load("unique", "--host", engine.url, "--users", 1, "--requests", 1, "--cache-salt", "s", "--api-key", "k")
    load(
        *(
            "multi-turn",
            "--host",
            engine.url + "/v1/",
            "--users",
            1,
            "--requests",
            3,
            "--sessions",
            1,
            "--turns",
            2,
        ),
        *("--no-ignore-eos", "--prefix-tokens", 0),
    )
    completion, first, second, other_chat = engine.exchanges
    assert completion.path == "/v1/completions"
    assert len(completion.body.pop("prompt")) == 512 + 64
    assert completion.body == {
        "model": "tiny",
        "max_tokens": 16,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "cache_salt": "s",
    }
    assert completion.headers["Authorization"] == "Bearer k"
    assert completion.headers["Accept-Encoding"] == "identity"
    assert first.path == "/v1/chat/completions"
    assert "ignore_eos" not in first.body
    question, reply, follow_up = second.body["messages"]
    assert [question] == first.body["messages"]
    assert reply == {"role": "assistant", "content": "ab"}
    assert follow_up["role"] == "user"
    assert len(other_chat.body["messages"]) == 1


def test_requests_go_to_the_models_in_turn(engine: Any, load: Any) -> None:
    words = ["unique", "--host", engine.url, "--users", 1, "--requests", 6, "--json"]
    ended = load(*words, "--model", "one", "--model", "two")
    assert [exchange.body["model"] for exchange in engine.exchanges] == ["one", "two"] * 3
    assert ended.summary["models"] == ["one", "two"]


def test_failures_are_counted_by_reason_and_end_with_code_1(
    engine: Any, load: Any, answers: Any, good_stream: Any
) -> None:
    error = b'data: {"error": {"message": "engine dead"}}\n\n'
    kinds = [
        good_stream(["a"]),
        answers([(0, b'{"error": {"message": "busy"}}')], status=503, content_type="application/json"),
        answers([(0, good_stream(["a", "b"]).pieces[0][1])], cut=True),
        answers([(0, error)]),
        answers([(0, good_stream(["a", "b"]).pieces[0][1])]),
    ]
    engine.answer = lambda exchange: kinds[(len(engine.exchanges) - 1) % len(kinds)]
    ended = load("unique", "--host", engine.url, "--users", 1, "--requests", 10, "--json")
    assert ended.code == 1
    assert ended.err.startswith("hitcurve: the load 'unique' is invalid: 8 of 10 requests failed: ")
    failures = dict(ended.summary["failures"])
    cut = next(reason for reason in failures if reason.startswith("stream was cut"))
    assert failures == {
        "HTTP 503: busy": 2,
        cut: 2,
        "error inside the stream: engine dead": 2,
        "stream ended without finish_reason or [DONE]": 2,
    }
    assert (ended.summary["verdict"], ended.summary["requests"]["ok"]) == ("invalid", 2)


def test_a_trace_is_replayed_at_its_times(engine: Any, load: Any, tmp_path: Path, read_lines: Any) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 1000 * at_s, "input_length": 40, "output_length": 2, "hash_ids": ids}
        for at_s, ids in [(0, [0, 1]), (3, [0, 2]), (6, [0, 1])]
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["--trace", trace, "--host", engine.url, "--speed", 10, "--block-size", 32, "--json"]
    ended = load(*words, "--out", tmp_path / "run")
    assert (ended.code, ended.summary["requests"]["ok"]) == (0, 3)
    lines = read_lines(tmp_path / "run" / "requests.jsonl")
    scheduled = sorted(line["at_s"] - line["late_s"] for line in lines)
    assert [moment - scheduled[0] for moment in scheduled] == pytest.approx([0.0, 0.3, 0.6], abs=0.005)
    one, other, again = (exchange.body["prompt"] for exchange in engine.exchanges)
    assert (one, one[:32], len(one)) == (again, other[:32], 40)
    assert one[32:] != other[32:]
    assert load(*words, "--rate", 100, "--requests", 2).summary["requests"]["sent"] == 2
    assert load(*words, "--users", 2).summary["requests"]["sent"] == 3


def test_a_profile_with_adapters_needs_their_names(engine: Any, load: Any) -> None:
    ended = load("adapters-uniform", "--host", engine.url, "--model", "only")
    assert ended.code == 2
    assert ended.err == (
        "hitcurve: the profile 'adapters-uniform' asks 4 adapters and 1 are named; name each with --model.\n"
    )


def test_late_sending_is_shown_and_makes_the_run_invalid(engine: Any, load: Any, good_stream: Any) -> None:
    engine.answer = lambda exchange: good_stream(["a"], first_s=0.1)
    ended = load(
        *("unique", "--host", engine.url, "--rate", 100, "--arrivals", "constant", "--requests", 8),
        *("--max-in-flight", 1, "--max-lag", 0.2, "--json"),
    )
    assert (ended.code, ended.summary["verdict"]) == (1, "invalid")
    assert "requests were sent late by" in ended.summary["reasons"][-1]
    since_sent, since_due = (ended.summary["ttft_s"][name]["max"] for name in ("all", "since_scheduled"))
    # The eighth was due after 0.07 s and had to wait for seven others.
    assert since_due > since_sent + 0.5


def test_unknown_cached_tokens_are_unknown(engine: Any, load: Any, good_stream: Any) -> None:
    engine.answer = lambda exchange: good_stream(["a"], cached_tokens=None)
    summary = load("unique", "--host", engine.url, "--users", 1, "--requests", 2, "--json").summary
    assert summary["cache"] == {"hit_rate": None, "query_tokens": 0, "hit_tokens": 0, "known": 0, "unknown": 2}
    assert (summary["ttft_s"]["all"]["count"], summary["ttft_s"]["misses"]["count"]) == (2, 0)
    assert summary["engine"]["reason"].endswith("/metrics: HTTP 404")


def test_a_lagging_generator_makes_the_results_invalid(engine: Any, load: Any) -> None:
    ended = load("unique", "--host", engine.url, "--rate", 50, "--requests", 5, "--max-lag", 1e-9, "--json")
    assert (ended.code, ended.summary["verdict"]) == (1, "invalid")
    assert ended.summary["reasons"][0].startswith("the load generator lagged: ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals_stop_sending_and_write_the_results(
    number: signal.Signals, code: int, engine: Any, start_load: Any, tmp_path: Path, read_lines: Any
) -> None:
    process = start_load("unique", "--host", engine.url, "--rate", 100, "--duration", 300, "--out", tmp_path)
    wait_until(lambda: len(engine.exchanges) >= 5)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in out + err
    summary = json.loads((tmp_path / "load-unique.json").read_text())
    assert summary["requests"]["ok"] == len(read_lines(tmp_path / "requests.jsonl")) >= 5
    assert summary["verdict"] == "ok"


def test_requests_that_hang_are_given_up_after_a_signal(engine: Any, start_load: Any, answers: Any) -> None:
    engine.answer = lambda exchange: answers([(0, b": hello\n\n")] + [(0.05, b": wait\n\n")] * 100)
    process = start_load("unique", "--host", engine.url, "--users", 2, "--duration", 300, "--json")
    wait_until(lambda: len(engine.exchanges) == 2)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    summary = json.loads(out)
    assert process.returncode == 0
    assert summary["requests"] == {"sent": 2, "ok": 0, "failed": 0, "unfinished": 2}
    assert (summary["verdict"], summary["cache"]["hit_rate"]) == ("no_data", None)


def test_no_engine_ends_with_code_3_and_writes_no_summary(load: Any, tmp_path: Path) -> None:
    ended = load("unique", "--host", NOBODY, "--out", tmp_path)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        "hitcurve: no engine answers at http://127.0.0.1:1 (connection refused); start it or correct --host.\n"
    )
    assert not (tmp_path / "load-unique.json").exists()


def test_an_engine_without_models_must_be_told_one(engine: Any, load: Any) -> None:
    engine.models = []
    ended = load("unique", "--host", engine.url)
    assert ended.code == 2
    assert ended.err.startswith(f"hitcurve: {engine.url}/v1/models lists no model (HTTP 200); name the model with")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["uniq", "--host", NOBODY], "there is no load profile 'uniq'; did you mean 'unique'?"),
        (["--host", NOBODY], "give a profile or --trace, one of them;"),
        (["unique", "--trace", "t", "--host", NOBODY], "give a profile or --trace, one of them;"),
        (["unique", "--host", "ftp://h"], "--host: 'ftp://h' is not an address; write http://HOST:PORT."),
        (["unique", "--host", "http://me:hunter2@h"], "--host: an address holds a user name or password;"),
        (["unique", "--host", NOBODY, "--rate", "0"], "--rate is 0; it must be above zero."),
        (["unique", "--host", NOBODY, "--rate", "nan"], "--rate is nan; it must be a finite number."),
        (["unique", "--host", NOBODY, "--rate", "inf"], "--rate is inf; it must be a finite number."),
        (["unique", "--host", NOBODY, "--zipf", "nan"], "--zipf is nan; it must be a finite number."),
        (["unique", "--host", NOBODY, "--duration", "-1"], "--duration is -1; it must be above zero."),
        (["unique", "--host", NOBODY, "--zipf", "-1"], "--zipf is -1; it must not be negative."),
        (["unique", "--host", NOBODY, "--rate", "1", "--users", "1"], "--rate (open loop) and --users"),
        (
            ["unique", "--host", NOBODY, "--prefix-tokens", "9" * 23],
            f"--prefix-tokens is {'9' * 23}; give at most 100000000.",
        ),
        (["unique", "--host", NOBODY, "--name", "../x"], "--name '../x' must be a plain file name:"),
        (["unique", "--host", NOBODY, "--api", "rest"], "--api is 'rest'; it must be one of chat, completions."),
        (
            ["--trace", "/nowhere.jsonl", "--host", NOBODY],
            "the trace /nowhere.jsonl cannot be read (No such file or directory);",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(words: list[str], complaint: str, capsys: Any) -> None:
    from hitcurve.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["load", *words])
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"hitcurve: {complaint}")
    assert err.count("\n") == 1


def test_results_that_cannot_be_written_are_refused_before_anything_is_sent(
    engine: Any, load: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ended = load("unique", "--host", engine.url, "--out", tmp_path / "file")
    assert ended.code == 2
    assert ended.err.startswith(f"hitcurve: the results cannot be written to {tmp_path}/file/requests.jsonl: ")
    assert engine.exchanges == []


def test_a_second_load_of_one_name_in_one_folder_is_refused(engine: Any, load: Any, tmp_path: Path) -> None:
    (tmp_path / "load-unique.json").write_text("{}")
    ended = load("unique", "--host", engine.url, "--out", tmp_path)
    assert ended.code == 2
    assert ended.err.startswith(f"hitcurve: {tmp_path} already holds the results of a load named 'unique'; ")
    assert engine.exchanges == []
    assert [file.name for file in tmp_path.iterdir()] == ["load-unique.json"]


def test_a_load_that_finds_no_engine_leaves_nothing(load: Any, tmp_path: Path) -> None:
    ended = load("unique", "--host", NOBODY, "--out", tmp_path / "run")
    assert ended.code == 3
    assert list((tmp_path / "run").iterdir()) == []


def test_a_disk_that_fills_up_is_one_sentence_and_no_traceback(engine: Any, load: Any, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    (tmp_path / "requests.jsonl").symlink_to("/dev/full")
    for how in (["--rate", 50], ["--users", 2]):
        ended = load("unique", "--host", engine.url, "--requests", 20, "--out", tmp_path, *how, "--json")
        assert ended.code == 3
        assert ended.err == (
            f"hitcurve: the results cannot be written to {tmp_path}/requests.jsonl: No space left on device.\n"
        )
