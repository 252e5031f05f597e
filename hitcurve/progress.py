"""A progress bar on stderr for work that takes a while, nothing where stderr is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

__all__ = ["progress_over"]

EVERY = 256


@contextmanager
def progress_over(title: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of ``total`` pieces of work; done once more, they count from 1 again."""
    console = Console(stderr=True)
    # A title may hold a long path, and the numbers must stay visible beside it.
    half = Column(no_wrap=True, overflow="ellipsis", max_width=console.width // 2)
    name = TextColumn("{task.description}", table_column=half)
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)

        def advance() -> None:
            nonlocal done
            done = done % total + 1 if total else done + 1
            if done % EVERY == 0:
                progress.update(task, completed=done)

        yield advance
