"""What is shown instead of everything when the terminal is too small."""

from __future__ import annotations

from textual.widgets import Static

from fleet.tui.terminal import MINIMUM_COLUMNS, MINIMUM_ROWS


class TooSmall(Static):
    """Shown by the style sheet alone (classes -narrow and -short of the screen). It covers the others and leaves them
    the focus, so that everything is as it was when there is room again."""

    DEFAULT_CSS = """
    TooSmall { display: none; layer: cover; dock: top; width: 100%; height: 100%; background: $background; }
    """

    def __init__(self) -> None:
        super().__init__(f"too small: min {MINIMUM_COLUMNS}x{MINIMUM_ROWS}", markup=False)
