"""How ``--help`` looks: panels where the window has room for them, plain lines that cut no name elsewhere."""

import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

__all__ = ["PANEL_WIDTH", "fit_to_window"]

PANEL_WIDTH: Final = 110
"""Columns from which on the longest option of every command fits into Typer's panels, which cut what does not."""


def fit_to_window(app: "typer.Typer") -> None:
    """Choose the look for the terminal's columns, or as many as ``COLUMNS`` says."""
    if shutil.get_terminal_size().columns < PANEL_WIDTH:
        app.rich_markup_mode = None
