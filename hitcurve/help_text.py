"""How ``--help`` looks: panels where the window has room for them, plain lines that cut no name elsewhere."""

import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

__all__ = ["PANEL_WIDTH", "fit_to_window"]

PANEL_WIDTH: Final = 110
"""Columns from which on the longest option of every command fits into Typer's panels, which cut what does not."""


def fit_to_window(app: "typer.Typer", columns: int | None = None) -> None:
    """Choose the look for a window of ``columns``; by default the terminal's, or what ``COLUMNS`` says."""
    if (shutil.get_terminal_size().columns if columns is None else columns) < PANEL_WIDTH:
        app.rich_markup_mode = None
