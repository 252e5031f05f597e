"""The live view, drawn in a terminal of Textual's own, with scripted rounds."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from hitcurve.reading import Cause, CurveState, Interval, Reading, RequestWindowRate, StateName, WindowRate
from hitcurve.watch.replica import Replica, Round
from hitcurve.watch.view import WatchApp

Look = Callable[[Pilot[None], "Scripted"], Coroutine[Any, Any, None]]


class Scripted:
    """Rounds that the test hands out one by one."""

    def __init__(self, *replicas: Replica) -> None:
        self.replicas = replicas
        self.read = 0
        self.more = threading.Semaphore(1)

    def next(self) -> Round:
        self.more.acquire(timeout=10)
        self.read += 1
        return Round(1_796_000_000.0, self.replicas)


def replica(name: str, rate: float | None, state: StateName = "steady", cause: Cause | None = None) -> Replica:
    hits = None if rate is None else 1000 * rate
    reading = Reading(
        name,
        "0",
        1_796_000_000.0,
        up=True,
        interval=Interval(1_795_999_995.0, 1_796_000_000.0, 1000.0, hits, rate),
        windows=(WindowRate(60.0, 1000.0, hits or 0.0, rate),),
        request_window=RequestWindowRate(1000, 1000.0, rate, 12.0),
        cumulative_hit_rate=0.5,
        kv_usage=0.25,
        mean_ttft_s=0.0849,
        capacity_tokens=64_000,
        block_size=16,
        running_adapters=("sql",),
        state=CurveState(state, cause, 1_795_999_000.0, {"drop": 0.25}),
        flags=("duplicate_series",),
    )
    return Replica(name, reading, (Interval(0.0, 5.0, 10.0, 5.0, 0.5),))


FLEET = (
    replica("chat-0", 0.9),
    replica("chat-1", 0.2, "degraded", "pool_pressure"),
    replica("chat-2", None, "no_traffic"),
    Replica("chat-3", Reading("chat-3", "", 0.0, up=False, failure="connection refused")),
)


def look(test: Look, *replicas: Replica, size: tuple[int, int] = (80, 24)) -> None:
    """Open the view, wait for the first round, and run a test in it."""

    async def run() -> None:
        scripted = Scripted(*replicas)
        app = WatchApp(scripted, 0.01)
        async with app.run_test(size=size) as pilot:
            for _ in range(1000):
                await pilot.pause(0.01)
                if app.query_one(DataTable).row_count == len(replicas):
                    break
            try:
                await test(pilot, scripted)
            finally:
                # The reading thread ends with the view; nothing may hold it until then.
                scripted.more.release(10_000)

    asyncio.run(run())


def rows(pilot: Pilot[None]) -> list[list[str]]:
    table = pilot.app.query_one(DataTable)
    return [[cell.plain for cell in table.get_row_at(number)] for number in range(table.row_count)]


def summary(pilot: Pilot[None]) -> str:
    return str(pilot.app.query_one("#summary", Static).render())


def test_eighty_columns_show_the_unhealthy_first() -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        assert rows(pilot) == [
            ["chat-1", "degraded (pool_pressure)", "20.0%", "20.0%", "50.0%", "▅"],
            ["chat-3", "down: connection refused", "–", "–", "–", ""],
            ["chat-2", "no_traffic", "–", "–", "50.0%", "▅"],
            ["chat-0", "steady", "90.0%", "90.0%", "50.0%", "▅"],
        ]
        assert summary(pilot).startswith("4 replicas · 2 unhealthy · hit rate over 60 s 36.7% · ")

    look(test, *FLEET)


def test_a_wide_screen_shows_more_columns() -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        (row,) = rows(pilot)
        assert row == ["a", "steady", "50.0%", "50.0%", "50.0%", "25.0%", "200", "85ms", "–", "–", "sql", "▅"]
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert rows(pilot) == [["a", "steady", "50.0%", "50.0%", "50.0%", "▅"]]

    look(test, replica("a", 0.5), size=(140, 30))


def test_s_sorts_by_the_next_column_lowest_rate_first_and_no_value_last() -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        await pilot.press("s")
        assert [row[0] for row in rows(pilot)] == ["chat-1", "chat-0", "chat-2", "chat-3"]

    look(test, *FLEET)


def test_a_filter_matches_names_and_states_and_escape_clears_it() -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        await pilot.press("slash", *"pool", "enter")
        assert [row[0] for row in rows(pilot)] == ["chat-1"]
        assert "filter 'pool'" in summary(pilot)
        await pilot.press("escape")
        assert len(rows(pilot)) == 4

    look(test, *FLEET)


def test_a_paused_view_reads_nothing_until_it_goes_on() -> None:
    async def test(pilot: Pilot[None], scripted: Scripted) -> None:
        await pilot.press("p")
        assert summary(pilot).endswith("· paused")
        scripted.more.release()
        # The one reading that may have begun before the key.
        await pilot.pause(0.2)
        read = scripted.read
        scripted.more.release()
        await pilot.pause(0.2)
        assert (read, scripted.read) in ((2, 2), (1, 1))
        await pilot.press("p")
        for _ in range(1000):
            await pilot.pause(0.01)
            if scripted.read > read:
                break
        assert scripted.read > read
        assert not summary(pilot).endswith("paused")

    look(test, *FLEET)


def test_a_state_keeps_its_colour_under_the_cursor() -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        table = pilot.app.query_one(DataTable)
        assert table.cursor_row == 0
        assert table.cursor_foreground_priority == "renderable"
        (state,) = [cell for cell in table.get_row_at(0) if str(cell).startswith("degraded")]
        assert state.style == "yellow"

    look(test, *FLEET)


def test_d_shows_everything_of_the_replica_under_the_cursor() -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        await pilot.press("d")
        await pilot.pause()
        text = str(pilot.app.screen.query_one("#detail", Static).render())
        for words in (
            "chat-1\ndegraded (pool_pressure)\n",
            "  drop                    0.25\n",
            "hit rate, 60 s            20.0%  200 of 1.0k tokens\n",
            "hit rate, 1000 requests   20.0%  lags by 12 s\n",
            "pool, block size          64,000 tokens, 16 tokens\n",
            "duplicate_series: the page prints a series more than once; it was counted once\n",
        ):
            assert words in text
        await pilot.press("escape")
        assert pilot.app.query_one(DataTable).row_count == 4

    look(test, *FLEET)


@pytest.mark.parametrize("key", ["q"])
def test_q_ends(key: str) -> None:
    async def test(pilot: Pilot[None], _: Scripted) -> None:
        await pilot.press(key)
        assert not pilot.app.is_running

    look(test, *FLEET)
