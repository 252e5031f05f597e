"""The live view: a table of replicas that keeps itself fresh, with keys to sort, filter, pause and look closer."""

import threading
import time
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from hitcurve.monitor import total_windows
from hitcurve.replay.sparkline import sparkline
from hitcurve.watch.detail import detail
from hitcurve.watch.replica import Replica, Round, unhealthy
from hitcurve.watch.sources import Rounds
from hitcurve.watch.table import COLUMNS, Column, columns_for, percent

__all__ = ["WatchApp"]

_LEAST_CURVE: Final = 6
_CELL_PADDING: Final = 2


class Detail(ModalScreen[None]):
    """All that is known of one replica; Escape goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.replica_name = name

    def compose(self) -> ComposeResult:
        """A scrollable page, and the keys."""
        with VerticalScroll(id="page"):
            yield Static(id="detail")
        yield Footer()

    def show(self, replica: Replica | None) -> None:
        """Draw what is known now."""
        gone = Text(f"{self.replica_name} is gone.")
        text = gone if replica is None else detail(replica, self.app.size.width - 4)
        self.query_one("#detail", Static).update(text)


class WatchApp(App[None]):
    """Follows ``rounds`` every ``interval_s`` seconds."""

    TITLE = "hitcurve watch"
    CSS = """
    #summary { height: 1; padding: 0 1; background: $panel; }
    #replicas { height: 1fr; }
    #replicas > .datatable--cursor { background: $panel-lighten-2; }
    #filter { display: none; }
    #filter.shown { display: block; }
    #page { padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("p", "pause", "Pause"),
        Binding("d", "detail", "Detail"),
        Binding("escape", "clear_filter", "Clear filter", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, rounds: Rounds, interval_s: float) -> None:
        super().__init__()
        self._rounds = rounds
        self._interval_s = interval_s
        self._round: Round | None = None
        self._sorted_by = "state"
        self._filter = ""
        self._paused = False
        self._ended = threading.Event()

    def compose(self) -> ComposeResult:
        """Summary, table, filter and keys."""
        yield Static("reading …", id="summary")
        # The state keeps its colour under the cursor.
        yield DataTable(id="replicas", cursor_type="row", cursor_foreground_priority="renderable")
        yield Input(placeholder="part of a replica's name or state", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Begin."""
        self.query_one(DataTable).focus()
        self._follow()

    def on_unmount(self) -> None:
        """End the reading thread."""
        self._ended.set()

    @work(thread=True, exclusive=True)
    def _follow(self) -> None:
        """Read rounds in a thread, each begun ``interval_s`` after the one before."""
        due = time.monotonic()
        while not self._ended.is_set():
            if not self._paused:
                round_ = self._rounds.next()
                if self._ended.is_set():
                    return
                self.call_from_thread(self.show_round, round_)
            due = max(due + self._interval_s, time.monotonic())
            self._ended.wait(due - time.monotonic())

    def show_round(self, round_: Round) -> None:
        """Draw a round."""
        self._round = round_
        self._draw()

    def on_resize(self) -> None:
        """Columns come and go with the width, which is the new one only after this event."""
        self.call_after_refresh(self._draw)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as one types."""
        self._filter = event.value.strip().lower()
        self._draw()

    def on_input_submitted(self) -> None:
        """Back to the table, the filter stays."""
        self.query_one("#filter").remove_class("shown")
        self.query_one(DataTable).focus()

    def on_data_table_row_selected(self) -> None:
        """Enter, or a click, on a row."""
        self.action_detail()

    def action_sort(self) -> None:
        """Sort by the next column on the screen."""
        titles = [column.title for column in columns_for(self.size.width)]
        at = titles.index(self._sorted_by) if self._sorted_by in titles else -1
        self._sorted_by = titles[(at + 1) % len(titles)]
        self._draw()

    def action_filter(self) -> None:
        """Ask for a part of a name or state."""
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def action_clear_filter(self) -> None:
        """Show all replicas again."""
        self.query_one("#filter", Input).value = ""
        self.on_input_submitted()

    def action_pause(self) -> None:
        """Hold the screen still; reading stops too."""
        self._paused = not self._paused
        self._draw()

    def action_detail(self) -> None:
        """Open the page of the replica under the cursor."""
        table = self.query_one(DataTable)
        if table.row_count:
            name = table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key.value
            self.push_screen(Detail(str(name)))
            self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self._round is None or not self.is_running:
            return
        if isinstance(self.screen, Detail):
            name = self.screen.replica_name
            self.screen.show(next((one for one in self._round.replicas if one.name == name), None))
            return
        self.query_one("#summary", Static).update(self._summary(self._round))
        self._draw_table(self._round)

    def _shown(self, round_: Round) -> list[Replica]:
        order = next((column.order for column in COLUMNS if column.title == self._sorted_by), COLUMNS[0].order)
        matching = (one for one in round_.replicas if self._filter in _searched(one))
        return sorted(matching, key=lambda replica: (*order(replica), replica.name))

    def _draw_table(self, round_: Round) -> None:
        table = self.query_one(DataTable)
        under_cursor = None
        if table.row_count:
            under_cursor = table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key.value
        shown = self._shown(round_)
        columns = columns_for(self.size.width, (one.name for one in shown))
        table.clear(columns=True)
        for column in columns:
            table.add_column(self._title(column), width=column.width)
        curve_width = max(self.size.width - _width(columns) - _CELL_PADDING - 1, _LEAST_CURVE)
        table.add_column("curve, 0 to 1" if curve_width > len("curve, 0 to 1") else "curve", width=curve_width)
        for replica in shown:
            cells = [_aligned(column, replica) for column in columns]
            table.add_row(*cells, Text(sparkline(replica.curve[-curve_width:], curve_width)), key=replica.name)
        names = [replica.name for replica in shown]
        if under_cursor in names:
            table.move_cursor(row=names.index(under_cursor))

    def _title(self, column: Column) -> Text:
        mark = "▾" if column.title == self._sorted_by else ""
        return Text(column.title + mark, justify=column.side, style="bold" if mark else "dim")

    def _summary(self, round_: Round) -> Text:
        ill = sum(unhealthy(one.reading) for one in round_.replicas)
        fleet = total_windows(one.reading for one in round_.replicas if one.reading.up)
        rate = percent(fleet[0].hit_rate if fleet else None)
        window = f" over {fleet[0].window_s:g} s" if fleet else ""
        moment = time.strftime("%H:%M:%S", time.localtime(round_.at_s))
        words = [
            f"{len(round_.replicas)} replica{'' if len(round_.replicas) == 1 else 's'}",
            f"{ill} unhealthy",
            f"hit rate{window} {rate}",
            f"filter '{self._filter}'" if self._filter else "",
            "paused" if self._paused else moment,
        ]
        return Text(" · ".join(word for word in words if word), style="bold red" if ill else "")


def _searched(replica: Replica) -> str:
    state = replica.reading.state
    words = f"{replica.name} {'down' if not replica.reading.up else ''}"
    return f"{words} {state.state} {state.cause or ''}".lower() if state else words.lower()


def _aligned(column: Column, replica: Replica) -> Text:
    text = column.cell(replica)
    if column.keeps == "end" and len(text.plain) > column.width:
        text = Text("…" + text.plain[1 - column.width :], style=text.style)
    text.truncate(column.width, overflow="ellipsis")
    text.justify = column.side
    return text


def _width(columns: tuple[Column, ...]) -> int:
    return sum(column.width + _CELL_PADDING for column in columns)
