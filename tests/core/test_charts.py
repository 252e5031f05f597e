"""Charts: where lines, marks and ticks lie, and that names cannot break out of the page."""

import re
from xml.etree import ElementTree

from hitcurve.charts import Band, Line, Mark, Strip, distribution_chart, log_chart, time_chart


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str, css: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter("text") if element.get("class") == css]


def path_of(svg: str, css: str) -> list[tuple[float, float]]:
    (path,) = [one for one in parsed(svg).iter("path") if one.get("class") == f"line {css}"]
    pairs = re.findall(r"[ML]([\d.]+) ([\d.]+)", path.get("d", ""))
    return [(float(x), float(y)) for x, y in pairs]


def curve_chart(*marks: Mark) -> str:
    return log_chart(
        [Line("hit rate", "bound", [(1, 0.0), (10, 0.5), (100, 1.0)])],
        title="a <curve>",
        width=258,
        height=150,
        y_max=1.0,
        x_label=lambda x: f"{x:g}",
        y_label=lambda y: f"{y:.0%}",
        marks=marks,
    )


def test_a_decade_takes_the_same_room_anywhere_on_a_logarithmic_axis() -> None:
    assert path_of(curve_chart(), "bound") == [(46.0, 124.0), (146.0, 74.0), (246.0, 24.0)]


def test_crowded_ticks_are_thinned_to_powers_of_ten() -> None:
    ticks = texts(curve_chart(), "tick")
    assert ticks == ["0%", "25%", "50%", "75%", "100%", "1", "10", "100"]


def test_marks_lie_at_their_place_and_those_outside_at_the_edge() -> None:
    svg = curve_chart(Mark(10, "present"), Mark(1e6, "beyond"))
    lines = [one for one in parsed(svg).iter("line") if one.get("class") == "mark"]
    assert [line.get("x1") for line in lines] == ["146.0", "246.0"]
    assert texts(svg, "mark-label") == ["present", "beyond"]


def test_names_are_escaped() -> None:
    assert 'aria-label="a &lt;curve&gt;"' in curve_chart()
    svg = curve_chart(Mark(2, "<script>"))
    assert "<script>" not in svg
    assert texts(svg, "mark-label") == ["<script>"]


def test_a_time_chart_breaks_its_line_where_there_is_no_value_and_names_its_states() -> None:
    svg = time_chart(
        [Line("rate", "main", [(0, 1.0), (60, None), (120, 0.5)])],
        title="rates",
        width=358,
        height=200,
        x_range=(0.0, 120.0),
        y_max=1.0,
        y_label=lambda y: f"{y:g}",
        bands=[Band(30, 60, "reset")],
        strip=Strip([(0, 120, "steady")]),
    )
    circles = list(parsed(svg).iter("circle"))
    assert [(one.get("cx"), one.get("cy")) for one in circles] == [("46.0", "24.0"), ("346.0", "87.0")]
    assert texts(svg, "band-label") == ["1 reset"]
    assert texts(svg, "state-label") == ["steady"]


def test_a_distribution_ends_at_all_of_its_values() -> None:
    svg = distribution_chart(
        [("ttft", "hit", [0.1, 0.2, 1.0])], title="TTFT", width=258, height=150, x_label=lambda x: f"{x:g}"
    )
    (path,) = parsed(svg).iter("path")
    assert path.get("d", "").endswith("V24.0")
