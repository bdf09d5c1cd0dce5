"""What is shown instead of everything when the terminal is too small."""

from __future__ import annotations

from textual.widgets import Static

from fleet.tui.terminal import MINIMUM_COLUMNS, MINIMUM_ROWS


class TooSmall(Static):
    """Shown by the style sheet alone (classes -narrow and -short of the screen)."""

    DEFAULT_CSS = """
    TooSmall { display: none; width: 1fr; height: 1; }
    """

    def __init__(self) -> None:
        super().__init__(f"too small: {MINIMUM_COLUMNS}x{MINIMUM_ROWS} needed", markup=False)
