"""The page for people."""

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from hitcurve.reading import CurveState, Reading, RequestWindowRate, WindowRate
from hitcurve_exporter.configuration.records import TargetConfig
from hitcurve_exporter.scraping.fetched import Fetched
from hitcurve_exporter.scraping.watched_target import InternalErrors, WatchedTarget
from hitcurve_exporter.web.landing_page import landing_page

NOW_S = 10_000.0
GOOD = Fetched(NOW_S - 1, 1.0, 0.01, 200, "text/plain", b"")


class Cells(HTMLParser):
    """Texts of the table's cells, row by row; every address the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())


def target(name: str, *readings: Reading, fetched: Fetched | None = GOOD) -> WatchedTarget:
    watched = WatchedTarget(
        TargetConfig(f"http://{name}:1", f"http://{name}:1/metrics", name), 256, InternalErrors()
    )
    if fetched is not None:
        watched.take(fetched, readings)
    return watched


def reading(engine: str, state: CurveState | None, **values: Any) -> Reading:
    known = Reading(
        target="t", engine=engine, at_s=NOW_S, up=True, labels={"model_name": "<b>tiny</b>"}, state=state
    )
    return replace(known, **values)


def cells(*targets: WatchedTarget) -> Cells:
    parser = Cells()
    parser.feed(landing_page(targets, 15.0, NOW_S))
    return parser


def test_the_table_shows_each_engine_the_unhealthy_first() -> None:
    steady = reading(
        "0",
        CurveState("steady", None, NOW_S - 7200),
        windows=(WindowRate(30.0, 100.0, 75.0, 0.75), WindowRate(60.0, 0.0, 0.0, None)),
        request_window=RequestWindowRate(1000, 1000, 0.5, 60.0),
        cumulative_hit_rate=0.875,
        kv_usage=0.25,
        restarts_total=1,
        resets_total=2,
    )
    collapsed = reading("1", CurveState("collapsed", "reset", NOW_S - 90))
    refused = Fetched(NOW_S, 1.0, 0.01, failure="connection_refused", detail="connection refused")
    seen = cells(
        target("alpha", steady, collapsed),
        target("gone", Reading("t", "", NOW_S, up=False, failure="connection refused"), fetched=refused),
        target("new", fetched=None),
    )
    assert seen.rows[1:] == [
        ["30s", "1m"],
        ["gone", "down", "connection refused"],
        ["new", "waiting", "not scraped yet"],
        ["alpha 1 · <b>tiny</b>", "collapsed reset", "2 m", "–", "–", "–", "–", "–", "0 / 0"],
        [
            "alpha 0 · <b>tiny</b>",
            "steady",
            "2 h",
            "75.0 %",
            "–",
            "50.0 %",
            "87.5 %",
            "25.0 %",
            "1 / 2",
        ],
    ]


def test_a_page_of_many_engines_is_bounded() -> None:
    engines = [reading(f"{number:04}", CurveState("steady", None, NOW_S)) for number in range(200)]
    seen = cells(*(target(f"t{number}", *engines) for number in range(5)))
    assert len(seen.rows) == 2 + 500
    page = landing_page([target(f"t{number}", *engines) for number in range(5)], 15.0, NOW_S)
    assert "500 more engines are in /api/v1/engines." in page


def test_the_page_needs_no_network() -> None:
    own = cells(target("alpha", reading("0", None))).addresses
    assert own == ["data:,", "/metrics", "/api/v1/engines", "/-/healthy", "/-/ready"]


def test_the_head_counts_targets_as_one_speaks() -> None:
    for names, said in (((), "0 targets, "), (("a",), "1 target, "), (("a", "b"), "2 targets, ")):
        assert f" · {said}every 15s</span>" in landing_page([target(name) for name in names], 15.0, NOW_S)
