"""The running service: real HTTP on the loopback interface, on both sides."""

# ruff: noqa: E501  (one refused mark and its sentence a line reads best)

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hitcurve.errors import UsageError
from hitcurve.reading import Reading, reading_from_json
from hitcurve_exporter.configuration.load import configuration_from_options
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.scraping.core_monitor import core_monitor
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.monitoring import Monitor

JSON = "application/json"
Start = Callable[..., Any]
Eventually = Callable[..., Any]
PageOf = Callable[..., str]


def watching(*urls: str, interval: str = "100ms") -> ExporterConfig:
    return replace(configuration_from_options(urls, interval), windows_s=(30.0, 300.0))


def engine_labels(url: str) -> str:
    return f'target="{url}",engine="0",model_name="tiny"'


def scraped_again(engine: Any, eventually: Eventually, times: int = 2) -> None:
    """Wait until pages asked for from now on were taken."""
    before = engine.scrapes
    eventually(lambda: engine.scrapes >= before + times, "another scrape")


def test_what_is_scraped_is_served(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    engine = scripted_engine(page_of(100_000, 90_000, 100))
    exporter = start_exporter(watching(engine.url))
    name = engine_labels(engine.url)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    first = exporter.samples()
    assert first[f"hitcurve_query_tokens_total{{{name}}}"] == 0
    assert first[f"hitcurve_cumulative_hit_rate_ratio{{{name}}}"] == 0.9
    assert f'hitcurve_hit_rate_ratio{{{name},window="30s"}}' not in first
    engine.page = page_of(101_000, 90_100, 110)
    scraped_again(engine, eventually)
    engine.page = page_of(103_000, 90_200, 120)
    scraped_again(engine, eventually)
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
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    engine = scripted_engine(page_of(9000, 8100, 10, start_s=time.time() - 60))
    exporter = start_exporter(watching(engine.url))
    name = engine_labels(engine.url)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    restarted_s = time.time()
    engine.page = page_of(1000, 200, 2, start_s=restarted_s)
    scraped_again(engine, eventually)
    engine.page = page_of(3000, 1200, 5, start_s=restarted_s)
    scraped_again(engine, eventually)
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
) -> None:
    engine = scripted_engine(**settings)
    exporter = start_exporter(replace(watching(engine.url), max_body_bytes=4096))
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
    start_exporter: Start, eventually: Eventually
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
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    """EXP-28: +600/+450 over a failed scrape."""
    engine = scripted_engine(page_of(1000, 500, 10))
    exporter = start_exporter(watching(engine.url))
    name = engine_labels(engine.url)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    engine.status = 500
    scraped_again(engine, eventually)
    gap = exporter.samples()
    assert f'hitcurve_hit_rate_ratio{{{name},window="30s"}}' not in gap
    assert gap[f"hitcurve_query_tokens_total{{{name}}}"] == 0
    engine.page = page_of(1600, 950, 16)
    engine.status = 200
    scraped_again(engine, eventually)
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{name}}}"] == 600
    assert seen[f'hitcurve_hit_rate_ratio{{{name},window="30s"}}'] == pytest.approx(0.75)


def test_a_target_that_leaves_takes_its_series_along(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    """EXP-29: targets [a, b] become [a]; what b still answers is thrown away, a keeps its history."""
    a, b = scripted_engine(page_of(1000, 500, 10)), scripted_engine(page_of(1000, 500, 10))
    configs = [watching(a.url, b.url), watching(a.url)]
    exporter = start_exporter(configs[0], lambda: configs[1])
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    a.page = page_of(1400, 800, 12)
    scraped_again(a, eventually)
    assert b.url in exporter.ask("/metrics").text
    b.delay_s = 30.0
    waiting = b.scrapes
    eventually(lambda: b.scrapes > waiting, "a scrape of b that hangs")
    assert exporter.ask("/-/reload", b"").status == 200
    assert b.url not in exporter.ask("/metrics").text
    b.released.set()
    scraped_again(a, eventually)
    text = exporter.ask("/metrics").text
    assert b.url not in text
    assert b.url not in exporter.ask("/api/v1/engines").text
    assert exporter.samples()[f"hitcurve_query_tokens_total{{{engine_labels(a.url)}}}"] == 400


def test_a_bad_new_configuration_keeps_the_old_one(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    engine = scripted_engine(page_of(1000, 500))
    answers: list[ExporterConfig | UsageError] = [UsageError("exporter.yaml:7: no."), watching(engine.url)]

    def read_again() -> ExporterConfig:
        answer = answers.pop(0)
        if isinstance(answer, UsageError):
            raise answer
        return answer

    exporter = start_exporter(watching(engine.url), read_again)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    refused = exporter.ask("/-/reload", b"")
    assert (refused.status, refused.text) == (400, "The old configuration stays: exporter.yaml:7: no.\n")
    scraped_again(engine, eventually)
    assert exporter.samples()["hitcurve_exporter_config_last_reload_successful"] == 0
    assert exporter.ask("/-/reload", b"").text == "The configuration was read again.\n"
    assert exporter.samples()["hitcurve_exporter_config_last_reload_successful"] == 1


def test_a_marked_reset_is_counted_and_cuts_the_curve(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    engine = scripted_engine(page_of(1000, 500, 10))
    exporter = start_exporter(watching(engine.url))
    resets = f"hitcurve_cache_resets_total{{{engine_labels(engine.url)}}}"
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    assert exporter.samples()[resets] == 0
    body = f'{{"target": "{engine.url}/", "kind": "reset"}}'.encode()
    marked = exporter.ask("/api/v1/marks", body, Content_Type=JSON)
    assert marked.status == 200
    assert marked.json()["marked_targets"] == 1
    eventually(lambda: exporter.samples()[resets] == 1, "the reset")


@pytest.mark.parametrize(
    ("body", "content_type", "status", "sentence"),
    [
        ("{}", "text/plain", 415, "Send Content-Type: application/json."),
        ("{", JSON, 400, 'the body is not JSON; send an object such as {"target": …, "kind": "reset"}.'),
        ("[]", JSON, 400, "the body must be one JSON object."),
        ("[" * 60_000, JSON, 400, 'the body is not JSON; send an object such as {"target": …, "kind": "reset"}.'),
        ('{"kind": "start"}', JSON, 400, "'kind' must be one of reset, restart, adapter_load."),
        ('{"kind": "reset"}', JSON, 400, "name a 'target' or an 'engine'."),
        ('{"kind": "reset", "target": 7}', JSON, 400, "'target' must be a text."),
        ('{"kind": "reset", "tarqet": "a"}', JSON, 400, "unknown key 'tarqet'; known keys are target, engine, kind, at_s."),
        ('{"kind": "reset", "target": "a", "at_s": "now"}', JSON, 400, "'at_s' must be a time in Unix seconds."),
        ('{"kind": "reset", "target": "a", "at_s": 12}', JSON, 400, "'at_s' must be Unix seconds within 1h of now."),
        ('{"kind": "reset", "target": "a", "at_s": NaN}', JSON, 400, "'at_s' must be a time in Unix seconds."),
        ('{"kind": "reset", "target": "a"}', JSON, 404, "No target or engine of that name is watched; see /api/v1/engines."),
        ('{"kind": "reset", "engine": "7"}', JSON, 404, "No target or engine of that name is watched; see /api/v1/engines."),
    ],
)  # fmt: skip
def test_a_bad_mark_is_refused_in_words(
    scripted_engine: Start,
    start_exporter: Start,
    page_of: PageOf,
    body: str,
    content_type: str,
    status: int,
    sentence: str,
) -> None:
    exporter = start_exporter(watching(scripted_engine(page_of(1, 0)).url))
    answer = exporter.ask("/api/v1/marks", body.encode(), Content_Type=content_type)
    assert (answer.status, answer.json()) == (status, {"error": sentence})


def test_an_error_inside_spoils_one_target_only(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    good, bad = scripted_engine(page_of(1000, 500)), scripted_engine(page_of(1000, 500))

    class Broken:
        def observe(self, fetched: Fetched) -> tuple[Reading, ...]:
            raise RuntimeError("planted")

        def mark(self, kind: str, at_s: float) -> None:
            """Never called."""

    def monitor(target: TargetConfig, config: ExporterConfig) -> Monitor:
        return Broken() if target.url == bad.url else core_monitor(target, config)

    exporter = start_exporter(watching(good.url, bad.url), None, monitor)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    scraped_again(bad, eventually)
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{engine_labels(good.url)}}}"] == 0
    assert seen[f'hitcurve_up{{target="{bad.url}"}}'] == 0
    assert seen[f'hitcurve_scrape_errors_total{{target="{bad.url}",reason="internal_error"}}'] >= 2
    assert seen["hitcurve_exporter_internal_errors_total"] >= 2


def test_the_answers_about_itself(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
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
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf
) -> None:
    engine = scripted_engine(page_of(1000, 500, 10))
    config = replace(
        watching(engine.url, interval="200ms"),
        targets=(TargetConfig(engine.url, f"{engine.url}/metrics", "left", (("zone", "fra1"),)),),
    )
    exporter = start_exporter(config)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    engine.page = page_of(1400, 800, 12)
    scraped_again(engine, eventually)
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
        "failure_detail": None,
    }
