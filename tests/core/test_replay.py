"""``hitcurve replay``: bad input in one sentence, the shape of the document, the table for people."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitcurve.cli import main

A, B = "http://a:8000/metrics", "http://b:8000/metrics"
Entry = dict[str, Any]
Run = Callable[..., tuple[int, str, str]]


def page(queries: int, hits: int, **gauges: int) -> str:
    labels = '{engine="0",model_name="m"}'
    extra = "".join(f"vllm:{name}{labels} {value}\n" for name, value in gauges.items())
    return (
        f"vllm:prefix_cache_queries_total{labels} {queries}\nvllm:prefix_cache_hits_total{labels} {hits}\n{extra}"
    )


def entry(at_s: float, target: str = A, **changes: Any) -> Entry:
    values = {"at_s": at_s, "target": target, "status": 200, "content_type": "text/plain; version=0.0.4"}
    return {**values, **changes}


@pytest.fixture
def record(tmp_path: Path) -> Callable[[list[tuple[Entry, str | None]]], Path]:
    """Write a recording of (entry, page or nothing); its folder."""

    def write(scrapes: list[tuple[Entry, str | None]]) -> Path:
        manifest = []
        for number, (values, text) in enumerate(scrapes):
            name = f"{number}.prom"
            if text is not None:
                (tmp_path / name).write_text(text)
            manifest.append(values if text is None else {**values, "file": name})
        (tmp_path / "scrapes.json").write_text(json.dumps(manifest))
        return tmp_path

    return write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; exit code, stdout, stderr."""

    def replay(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["replay", *map(str, arguments)])
        printed = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, printed.out, printed.err

    return replay


EXAMPLE = '{"at_s": 0, "target": "http://engine:8000/metrics", "status": 200, "file": "t0.prom"}'


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("{not json", "is not JSON"),
        ('{"at_s": 0}', f"is not a list; it must list scrapes like [{EXAMPLE}]."),
        ("[]", f"is an empty list; it must list scrapes like [{EXAMPLE}]."),
        ("[7]", f"entry 1 is not an object; write it like {EXAMPLE}."),
        ('[{"target": "a"}]', f"entry 1 lacks 'at_s' and 'status'; write it like {EXAMPLE}."),
        ('[{"at_s": "0", "target": "a", "status": 200}]', "entry 1: 'at_s' is \"0\"; give seconds as a number."),
        ('[{"at_s": NaN, "target": "a", "status": 200}]', "entry 1: 'at_s' is NaN; give seconds as a number."),
        ('[{"at_s": 1e999, "target": "a", "status": 200}]', "entry 1: 'at_s' is Infinity; give seconds"),
        pytest.param(
            f'[{{"at_s": {"9" * 400}, "target": "a", "status": 200}}]',
            "give seconds as a number.",
            id="a number of 400 digits",
        ),
        pytest.param("[" * 100_000, "is not JSON", id="nested too deeply"),
        ('[{"at_s": true, "target": "a", "status": 200}]', "entry 1: 'at_s' is true; give seconds as a number."),
        (
            '[{"at_s": 0, "target": "a", "status": "ok"}]',
            "entry 1: 'status' is \"ok\"; give the HTTP status, or null for no answer.",
        ),
        ('[{"at_s": 0, "target": null, "status": 200}]', "entry 1: 'target' is null; give a text."),
        ('[{"at_s": 0, "target": "a", "status": 200, "file": 3}]', "entry 1: 'file' is 3; give a text."),
        (
            '[{"at_s": 0, "target": "a", "status": 200, "file": "x.prom"}]',
            "x.prom; put it there, or leave 'file' out if the scrape brought no body.",
        ),
    ],
)
def test_a_bad_manifest_is_one_sentence_and_exit_2(manifest: str, sentence: str, tmp_path: Path, run: Run) -> None:
    (tmp_path / "scrapes.json").write_text(manifest)
    code, out, err = run(tmp_path, "--json")
    assert (code, out) == (2, "")
    assert err.startswith(f"hitcurve: manifest {tmp_path / 'scrapes.json'}")
    assert sentence in err
    assert err.count("\n") == 1


def test_the_number_of_the_bad_entry_is_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / "scrapes.json").write_text(json.dumps([entry(0), entry(15), {"at_s": 30, "target": A}]))
    assert "entry 3 lacks 'status'" in run(tmp_path)[2]


def test_a_missing_path_and_a_folder_without_manifest(tmp_path: Path, run: Run) -> None:
    cure = "; name a folder with scrapes.json or a manifest file.\n"
    missing = tmp_path / "none"
    assert run(missing) == (2, "", f"hitcurve: there is no manifest {missing}{cure}")
    assert run(tmp_path) == (2, "", f"hitcurve: folder {tmp_path} has no scrapes.json{cure}")
    (tmp_path / "readings.jsonl").touch()
    told = f"{tmp_path} is a run folder, which holds no pages; use 'hitcurve report {tmp_path}'."
    assert run(tmp_path) == (2, "", f"hitcurve: {told}\n")


@pytest.mark.parametrize("length", ["0", "-5", "nan", "inf"])
def test_a_window_needs_a_length(length: str, tmp_path: Path, run: Run) -> None:
    code, _, err = run(tmp_path, f"--window={length}")
    assert (code, err) == (2, f"hitcurve: --window is {float(length):g}; give a number of seconds above 0.\n")


def test_the_whole_document(record: Callable[..., Path], run: Run) -> None:
    folder = record(
        [
            (entry(0), page(100, 40, num_requests_waiting=0)),
            (entry(1, B), page(0, 0)),
            (entry(15, status=None, error="connection refused"), None),
            (entry(16, B), page(300, 30)),
            (entry(30), page(50, 20, num_requests_waiting=2)),
            (entry(31, B), page(400, 130)),
        ]
    )
    code, out, err = run(folder, "--window", "20", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)

    def interval(from_s: float, to_s: float, queries: int, hits: int, rate: float, restarts: int = 0) -> Entry:
        return {
            "from_s": from_s,
            "to_s": to_s,
            "queries": queries,
            "hits": hits,
            "hit_rate": pytest.approx(rate),
            "source_unit": "tokens",
            "restarts": restarts,
            "flags": [],
            "served": None,
            "tiers": None,
        }

    of_a = [interval(0, 30, 50, 20, 0.4, 1)]
    of_b = [interval(1, 16, 300, 30, 0.1), interval(16, 31, 100, 100, 1.0)]
    first, second = document["targets"][A], document["targets"][B]
    assert list(document) == ["targets", "fleet", "windows"]
    assert first["intervals"] == of_a
    assert second["intervals"] == of_b
    assert first["engines"]["0"]["labels"] == {"engine": "0", "model_name": "m"}
    assert first["engines"]["0"]["intervals"] == of_a
    assert (first["cumulative_hit_rate"], second["cumulative_hit_rate"]) == (0.4, 0.325)
    assert (first["restarts"], second["restarts"]) == (1, 0)
    assert first["failed_scrapes"] == [{"at_s": 15, "reason": "connection refused"}]
    assert first["cuts"] == [{"at_s": 0, "kind": "start"}, {"at_s": 30, "kind": "restart"}]
    assert first["facts"] == {
        "block_size": None,
        "pool_blocks": None,
        "capacity_tokens": None,
        "min_reusable_prefix_tokens": None,
        "running_adapters": None,
        "waiting_adapters": None,
        "adapter_hit_rates": None,
        "max_adapters": None,
        "requests_running": None,
        "requests_waiting": 2,
        "kv_usage": None,
        "start_time_s": None,
        "counter": "vllm:prefix_cache_queries_total",
        "source_unit": "tokens",
    }
    assert set(first["state"]) == {"state", "cause", "since_s", "evidence"}
    assert [(state["at_s"], state["state"], state["cause"]) for state in first["states"]] == [
        (0, "cold", None),
        (30, "cold", "restart"),
    ]
    assert [set(episode) for episode in first["episodes"]] == [{"from_s", "to_s", "depth", "lost_tokens", "cause"}]
    # Rounds: (a 0, b 1), (a 15 failed, b 16), (a 30, b 31).
    assert document["fleet"] == {"intervals": [interval(1, 16, 300, 30, 0.1), interval(0, 31, 150, 120, 0.8, 1)]}
    assert [tuple(window.values()) for window in document["windows"] if window["target"] == A] == [
        (A, 0, 20, 0, 0, None),
        (A, 15, 20, None, None, None),
        (A, 30, 20, 50, 20, 0.4),
    ]
    assert [window["queries"] for window in document["windows"] if window["target"] == B] == [0, 300, 400]


def test_a_target_that_never_gave_a_page(record: Callable[..., Path], run: Run) -> None:
    folder = record([(entry(0), "<html></html>\n"), (entry(15, status=404), "Not Found")])
    target = json.loads(run(folder, "--json")[1])["targets"][A]
    assert target["failed_scrapes"] == [
        {"at_s": 0, "reason": "The page is HTML, not metrics; the address probably misses /metrics."},
        {"at_s": 15, "reason": "HTTP 404"},
    ]
    assert (target["intervals"], target["engines"], target["states"], target["state"]) == ([], {}, [], None)
    assert (target["cumulative_hit_rate"], target["restarts"], target["cuts"]) == (None, 0, [])
    assert "no page was readable" in run(folder)[1]


def test_the_worst_engine_names_the_state_of_its_target(record: Callable[..., Path], run: Run) -> None:
    """Engine 1 hangs while engine 0 goes on: the target must not look well."""

    def both(step: int) -> str:
        moving, hung = page(1000 * step, 900 * step), page(5000, 4000, num_requests_waiting=3)
        return moving + hung.replace('engine="0"', 'engine="1"')

    folder = record([(entry(15 * step), both(step)) for step in range(1, 9)])
    target = json.loads(run(folder, "--json")[1])["targets"][A]
    assert target["engines"]["1"]["state"]["state"] == "stalled"
    assert target["engines"]["0"]["state"]["state"] != "stalled"
    assert target["state"] == target["engines"]["1"]["state"]


def test_the_table(record: Callable[..., Path], run: Run) -> None:
    pages = [(100, 0), (1100, 500), (1100, 500), (50, 0), (1050, 1000)]
    folder = record([(entry(15 * number), page(*pair)) for number, pair in enumerate(pages)])
    code, out, err = run(folder)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:4] == [
        A,
        "engine state hit rate tokens looked up restarts curve, 0 to 1",
        "0 cold (restart) 0.732 2,050 1 ▅·▁█",
        "0 s engine 0: cold",
    ]
    assert lines[4:] == [
        "45 s restart",
        "45 s engine 0: cold (restart), hit rate 0.000",
        "45 s engine 0: incident, cause restart, still going on",
    ]


def test_the_table_tells_what_happened_in_order_and_repeats_nothing(record: Callable[..., Path], run: Run) -> None:
    pages: list[str | None] = [
        None,
        page(100, 50),
        None,
        None,
        page(200, 100),
        page(300, 120).replace("120", "NaN"),
    ]
    pages += [page(400, 150), page(500, 900)]
    folder = record([(entry(15 * at, status=200 if text else 503), text) for at, text in enumerate(pages)])
    document = json.loads(run(folder, "--json")[1])["targets"][A]
    # The scrape without a count brought no interval; the one over it says so.
    assert [one["flags"] for one in document["intervals"]] == [
        [],
        ["unreadable_lookups"],
        ["hits_exceed_queries"],
    ]
    assert run(folder)[1].splitlines()[3:] == [
        "  0 s  scrape failed: HTTP 503 (3 times, last 45 s)",
        "  15 s  engine 0: cold",
        "  90 s  unreadable_lookups: one of the two lookup counters is missing or no count; nothing was taken "
        "from the engine",
        "  105 s  hits_exceed_queries: more hits than queries in this interval: the page was read between two "
        "increments",
    ]


def test_an_incident_in_the_table_has_cause_end_depth_and_cost(record: Callable[..., Path], run: Run) -> None:
    hits, pages = 0.0, []
    for number in range(60):
        hits += 900 if not 40 <= number < 44 else 0
        pages.append(page(1000 * number, int(hits), request_success_total=10 * number))
    folder = record([(entry(15 * number), text) for number, text in enumerate(pages)])
    (episode,) = json.loads(run(folder, "--json")[1])["targets"][A]["episodes"]
    assert (episode["from_s"], episode["lost_tokens"]) == (39 * 15, pytest.approx(4 * 900, rel=0.05))
    until = f"until {episode['to_s']:g} s, {100 * episode['depth']:.1f} points deep"
    cost = f"{episode['lost_tokens']:,.0f} tokens recomputed"
    events = [line for line in run(folder)[1].splitlines() if line.startswith("  ") and " s  " in line]
    assert f"  585 s  engine 0: incident, cause unknown, {until}, {cost}" in events
    times = [float(event.split()[0]) for event in events]
    assert times == sorted(times)
    assert any("engine 0: collapsed (unknown), hit rate" in event for event in events)


def test_the_table_prints_unix_times_as_dates(record: Callable[..., Path], run: Run) -> None:
    folder = record([(entry(1.76e9), page(100, 50)), (entry(1.76e9 + 15), page(40, 10))])
    assert "2025-10-09 08:53:35 UTC  restart" in run(folder)[1]
