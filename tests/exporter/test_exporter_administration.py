"""Reloads, marks, and what an error inside may cost: the running service over real HTTP."""

# ruff: noqa: E501  (one refused mark and its sentence a line reads best)

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from hitcurve.errors import UsageError
from hitcurve.reading import Reading
from hitcurve_exporter.configuration.records import ExporterConfig, TargetConfig
from hitcurve_exporter.scraping.core_monitor import core_monitor
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.monitoring import Monitor

JSON = "application/json"
Start = Callable[..., Any]
Configure = Callable[..., ExporterConfig]
Eventually = Callable[..., Any]
PageOf = Callable[..., str]


def test_a_target_that_leaves_takes_its_series_along(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    """EXP-29: targets [a, b] become [a]; what b still answers is thrown away, a keeps its history."""
    a, b = scripted_engine(page_of(1000, 500, 10)), scripted_engine(page_of(1000, 500, 10))
    configs = [watching(a.url, b.url), watching(a.url)]
    exporter = start_exporter(configs[0], lambda: configs[1])
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    a.page = page_of(1400, 800, 12)
    a.scraped_again()
    assert b.url in exporter.ask("/metrics").text
    b.delay_s = 30.0
    waiting = b.scrapes
    eventually(lambda: b.scrapes > waiting, "a scrape of b that hangs")
    assert exporter.ask("/-/reload", b"").status == 200
    assert b.url not in exporter.ask("/metrics").text
    b.released.set()
    a.scraped_again()
    text = exporter.ask("/metrics").text
    assert b.url not in text
    assert b.url not in exporter.ask("/api/v1/engines").text
    assert exporter.samples()[f"hitcurve_query_tokens_total{{{a.labels}}}"] == 400


def test_a_bad_new_configuration_keeps_the_old_one(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
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
    engine.scraped_again()
    assert exporter.samples()["hitcurve_exporter_config_last_reload_successful"] == 0
    assert exporter.ask("/-/reload", b"").text == "The configuration was read again.\n"
    assert exporter.samples()["hitcurve_exporter_config_last_reload_successful"] == 1


def test_a_marked_reset_is_counted_and_cuts_the_curve(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    engine = scripted_engine(page_of(1000, 500, 10))
    exporter = start_exporter(watching(engine.url))
    resets = f"hitcurve_cache_resets_total{{{engine.labels}}}"
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
    watching: Configure,
) -> None:
    exporter = start_exporter(watching(scripted_engine(page_of(1, 0)).url))
    answer = exporter.ask("/api/v1/marks", body.encode(), Content_Type=content_type)
    assert (answer.status, answer.json()) == (status, {"error": sentence})


def test_an_error_inside_spoils_one_target_only(
    scripted_engine: Start, start_exporter: Start, eventually: Eventually, page_of: PageOf, watching: Configure
) -> None:
    good, bad = scripted_engine(page_of(1000, 500)), scripted_engine(page_of(1000, 500))

    class Broken:
        episodes: ClassVar[dict[str, tuple[object, ...]]] = {}

        def observe(self, fetched: Fetched) -> tuple[Reading, ...]:
            raise RuntimeError("planted")

        def mark(self, kind: str, at_s: float) -> None:
            """Never called."""

    def monitor(target: TargetConfig, config: ExporterConfig) -> Monitor:
        return Broken() if target.url == bad.url else core_monitor(target, config)

    exporter = start_exporter(watching(good.url, bad.url), None, monitor)
    eventually(lambda: exporter.ask("/-/ready").status == 200)
    bad.scraped_again()
    seen = exporter.samples()
    assert seen[f"hitcurve_query_tokens_total{{{good.labels}}}"] == 0
    assert seen[f'hitcurve_up{{target="{bad.url}"}}'] == 0
    assert seen[f'hitcurve_scrape_errors_total{{target="{bad.url}",reason="internal_error"}}'] >= 2
    assert seen["hitcurve_exporter_internal_errors_total"] >= 2
