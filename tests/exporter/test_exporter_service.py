"""The running service: real HTTP on the loopback interface, on both sides."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from hitcurve.reading import reading_from_json
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig

Start = Callable[..., Any]
Configure = Callable[..., ExporterConfig]
Eventually = Callable[..., Any]
PageOf = Callable[..., str]


def test_what_is_scraped_is_served(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    engine = scripted_engine(page_of(100_000, 90_000, 100))
    exporter = start_exporter(watching(engine.url))
    name = engine.labels
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    first = exporter.samples()
    assert first[f"hitcurve_query_tokens_total{{{name}}}"] == 0
    assert first[f"hitcurve_cumulative_hit_rate_ratio{{{name}}}"] == 0.9
    assert f'hitcurve_hit_rate_ratio{{{name},window="30s"}}' not in first
    engine.page = page_of(101_000, 90_100, 110)
    engine.scraped_again()
    engine.page = page_of(103_000, 90_200, 120)
    engine.scraped_again()
    seen = exporter.samples()
    assert seen[f'hitcurve_hit_rate_ratio{{{name},window="30s"}}'] == pytest.approx(200 / 3000)
    assert seen[f'hitcurve_prefill_speedup_ratio{{{name},window="30s"}}'] == pytest.approx(1 / (1 - 200 / 3000))
    assert seen[f"hitcurve_query_tokens_total{{{name}}}"] == 3000
    assert seen[f"hitcurve_hit_tokens_total{{{name}}}"] == 200
    assert seen[f"hitcurve_requests_total{{{name}}}"] == 20
    assert seen[f"hitcurve_request_window_hit_rate_ratio{{{name}}}"] == pytest.approx(200 / 3000)
    assert seen[f"hitcurve_cumulative_hit_rate_ratio{{{name}}}"] == pytest.approx(90_200 / 103_000)
    assert seen['hitcurve_fleet_hit_rate_ratio{window="30s"}'] == pytest.approx(200 / 3000)
    assert seen["hitcurve_fleet_engines"] == 1
    assert seen[f'hitcurve_up{{target="{engine.url}"}}'] == 1
    assert engine.headers_seen[0]["Accept"].startswith("text/plain; version=0.0.4")


def test_a_restart_is_counted_and_totals_never_fall(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    engine = scripted_engine(page_of(9000, 8100, 10, start_s=time.time() - 60))
    exporter = start_exporter(watching(engine.url))
    name = engine.labels
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    restarted_s = time.time()
    engine.page = page_of(1000, 200, 2, start_s=restarted_s)
    engine.scraped_again()
    engine.page = page_of(3000, 1200, 5, start_s=restarted_s)
    engine.scraped_again()
    seen = exporter.samples()
    assert seen[f"hitcurve_engine_restarts_total{{{name}}}"] == 1
    assert seen[f"hitcurve_query_tokens_total{{{name}}}"] == 3000
    assert seen[f"hitcurve_hit_tokens_total{{{name}}}"] == 1200
    assert seen[f'hitcurve_hit_rate_ratio{{{name},window="30s"}}'] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("settings", "reason", "words"),
    [
        ({"status": 500, "page": "oops"}, "http_status", "HTTP 500"),
        ({"page": "<html>hello</html>", "content_type": "text/html"}, "not_metrics", "HTML"),
        ({"page": b"\xff\xfe"}, "not_metrics", "UTF-8"),
        ({"page": "x" * 5000}, "body_too_large", "4096"),
        ({"page": "", "delay_s": 60.0}, "timeout", "within 0.1 s"),
    ],
)
def test_a_failed_scrape_is_told_and_counted(
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Eventually,
    settings: dict[str, Any],
    reason: str,
    words: str,
    watching: Configure,
) -> None:
    engine = scripted_engine(**settings)
    exporter = start_exporter(watching(engine.url, max_body_bytes=4096, timeout_s=0.1))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    seen = exporter.samples()
    assert seen[f'hitcurve_up{{target="{engine.url}"}}'] == 0
    assert seen[f'hitcurve_scrape_errors_total{{target="{engine.url}",reason="{reason}"}}'] >= 1
    assert not [line for line in seen if "engine=" in line]
    (reading,) = [reading_from_json(entry) for entry in exporter.engines()["engines"]]
    assert (reading.up, reading.engine) == (False, "")
    assert words in (reading.failure or "")
    assert words in exporter.ask("/").text


def test_addresses_that_cannot_be_reached_have_their_own_reasons(
    start_exporter: Start, eventually: Eventually, watching: Configure
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        refusing = f"http://127.0.0.1:{closed.getsockname()[1]}"
    unknown = "http://engine.invalid:8000"
    exporter = start_exporter(watching(refusing, unknown, interval="1s"))
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    seen = exporter.samples()
    assert seen[f'hitcurve_scrape_errors_total{{target="{refusing}",reason="connection_refused"}}'] >= 1
    reasons = [target["failure"] for target in exporter.engines()["targets"]]
    assert reasons[0] == "connection_refused"
    assert reasons[1] in ("name_not_resolved", "timeout")


def test_a_gap_costs_no_tokens_and_shows_no_stale_rate(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    """EXP-28: +600/+450 over a failed scrape."""
    engine = scripted_engine(page_of(1000, 500, 10))
    exporter = start_exporter(watching(engine.url))
    name = engine.labels
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    engine.status = 500
    engine.scraped_again()
    gap = exporter.samples()
    assert f'hitcurve_hit_rate_ratio{{{name},window="30s"}}' not in gap
    assert gap[f"hitcurve_query_tokens_total{{{name}}}"] == 0
    engine.page = page_of(1600, 950, 16)
    engine.status = 200
    engine.scraped_again()
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{name}}}"] == 600
    assert seen[f'hitcurve_hit_rate_ratio{{{name},window="30s"}}'] == pytest.approx(0.75)


def test_the_answers_about_itself(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    engine = scripted_engine(page_of(1000, 500), delay_s=20.0)
    exporter = start_exporter(watching(engine.url, interval="30s"))
    assert exporter.ask("/-/healthy").text == "hitcurve exporter is healthy.\n"
    not_ready = exporter.ask("/-/ready")
    assert (not_ready.status, not_ready.text) == (503, "Not every target was scraped yet.\n")
    assert "not scraped yet" in exporter.ask("/").text
    engine.released.set()
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    plain = exporter.ask("/metrics")
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert plain.text.endswith("\n")
    assert 'hitcurve_build_info{version="' in plain.text
    assert "process_cpu_seconds_total" in plain.text
    compressed = exporter.ask(
        "/metrics", Accept="application/openmetrics-text; version=1.0.0", Accept_Encoding="gzip, deflate"
    )
    assert compressed.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert compressed.text.endswith("\n# EOF\n")
    assert compressed.text.count("# EOF") == 1
    assert exporter.ask("/nothing").status == 404


def test_the_api_gives_readings_that_read_back(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    engine = scripted_engine(page_of(1000, 500, 10))
    config = watching(
        engine.url,
        interval="200ms",
        targets=(TargetConfig(engine.url, f"{engine.url}/metrics", "left", (("zone", "fra1"),)),),
    )
    exporter = start_exporter(config)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    engine.page = page_of(1400, 800, 12)
    engine.scraped_again()
    answer = exporter.engines()
    (reading,) = [reading_from_json(entry) for entry in answer["engines"]]
    assert (reading.target, reading.engine, reading.up) == ("left", "0", True)
    assert (reading.query_tokens_total, reading.hit_tokens_total) == (400, 300)
    assert answer["interval_s"] == 0.2
    assert answer["fleet"]["windows"] == [
        {"window_s": 30.0, "queries": 400, "hits": 300, "hit_rate": 0.75},
        {"window_s": 300.0, "queries": 400, "hits": 300, "hit_rate": 0.75},
    ]
    (target,) = answer["targets"]
    assert target.pop("scraped_at_s") == target.pop("last_success_at_s") == reading.at_s
    assert target == {
        "target": "left",
        "url": engine.url,
        "labels": {"zone": "fra1"},
        "up": True,
        "failure": None,
        "kv_events": [],
        "failure_detail": None,
    }


def test_a_part_of_the_page_that_fails_leaves_the_others(
    scripted_engine: Start,
    start_exporter: Start,
    eventually: Eventually,
    page_of: PageOf,
    watching: Configure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = scripted_engine(page_of(1000, 500))
    exporter = start_exporter(watching(engine.url))
    eventually(lambda: exporter.ask("/-/ready").status == 200)

    def broken(readings: object) -> None:
        raise RuntimeError("no fleet")

    monkeypatch.setattr("hitcurve_exporter.service.fleet_of", broken)
    exporter.samples()
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{engine.labels}}}"] == 0
    assert not [name for name in seen if name.startswith("hitcurve_fleet")]
    assert seen["hitcurve_exporter_internal_errors_total"] == 1
