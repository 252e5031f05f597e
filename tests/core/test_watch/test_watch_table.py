"""The table of ``watch --once`` in windows of any width."""

import io

import pytest
from rich.console import Console

from hitcurve.errors import EnvironmentFailed
from hitcurve.reading import CurveState, Reading
from hitcurve.watch.command import print_once
from hitcurve.watch.replica import Replica, Round
from hitcurve.watch.table import as_table

NO_COUNTERS = (
    "The page has no counters (looked for " + ", ".join(f"vllm:counter_number_{n}" for n in range(9)) + ")."
)
LONG = "a-pod-with-a-long-name-0.some-service.some-namespace.svc.cluster.local:8000"


def up(name: str) -> Replica:
    state = CurveState("oscillating", "lora_churn", 0.0, {})
    return Replica(name, Reading(name, "0", 0.0, up=True, cumulative_hit_rate=0.5, kv_usage=0.25, state=state))


def down(name: str, failure: str) -> Replica:
    return Replica(name, Reading(name, "", 0.0, up=False, failure=failure))


def lines(width: int, *replicas: Replica) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(as_table(Round(0.0, replicas), width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("name", ["10.0.0.5:8000", LONG])
def test_nothing_is_lost_and_nothing_is_wider_than_the_window(width: int, name: str) -> None:
    shown = lines(width, up(name), down("10.0.0.6:8000", NO_COUNTERS))
    assert max(map(len, shown)) <= width
    at = shown[0].index("state")
    first, folded = "", ""
    for line in shown[1:]:
        first += line[:at].strip()
        folded += line[at : at + 24].strip()
    assert first == name + "10.0.0.6:8000"
    assert "oscillating" in folded
    assert "50.0%" in "".join(shown) or width < 60


def test_a_short_name_stays_on_its_line_beside_a_long_failure() -> None:
    shown = lines(80, down("10.0.0.6:8000", NO_COUNTERS))
    assert shown[1].startswith("10.0.0.6:8000  down: The page has no counters")
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        ([down("a", "HTTP 401")], "a cannot be read: HTTP 401; it asks for a key"),
        ([down("a", "The page is empty.")], "a cannot be read: The page is empty; check the address."),
        (
            [down("a", "HTTP 500"), down("b", "timeout")],
            "2 replicas cannot be read: a for one: HTTP 500; ",
        ),
    ],
)
def test_the_sentence_at_the_end_says_what_helps(replicas: list[Replica], sentence: str) -> None:
    with pytest.raises(EnvironmentFailed) as raised:
        print_once(Round(0.0, tuple(replicas)), as_json=True)
    assert str(raised.value).startswith(sentence)
