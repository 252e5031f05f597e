"""What a run takes in of the curve when it was busy with a fault."""

from pathlib import Path
from typing import Any

from hitcurve.reading import Reading
from hitcurve_chaos.clock import SystemClock
from hitcurve_chaos.watch import READINGS_FILE, Watch


class Backlog:
    """A source whose thread has gone on scraping."""

    trouble = None

    def __init__(self, *at_s: float) -> None:
        self.left = [[Reading("engine", "0", at, up=True)] for at in at_s]

    @property
    def pending(self) -> bool:
        return bool(self.left)

    def look(self) -> Any:
        return self.left.pop(0) if self.left else ()

    def mark(self, kind: str, at_s: float) -> bool:
        return False


def test_one_look_takes_in_all_that_was_scraped_meanwhile(tmp_path: Path) -> None:
    watch = Watch(Backlog(1.0, 2.0, 3.0), tmp_path, SystemClock())
    watch.look()
    assert [point.at_s for point in watch.curve.points] == [1.0, 2.0, 3.0]
    assert len((tmp_path / READINGS_FILE).read_text().splitlines()) == 3
