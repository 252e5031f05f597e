"""The console for tables: never so narrow that a figure is cut."""

from rich.console import Console

__all__ = ["table_console"]

_LEAST_COLUMNS = 80
_FILE_COLUMNS = 120


def table_console() -> Console:
    """Standard output, as wide as the terminal, and wider where that is too narrow or where it is no terminal."""
    console = Console(highlight=False)
    least = _LEAST_COLUMNS if console.is_terminal else _FILE_COLUMNS
    return Console(highlight=False, width=max(console.width, least))
