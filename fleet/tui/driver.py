"""Textual's terminal driver, less one fault: a byte that is no UTF-8 (an umlaut in Latin-1) ended the screens."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver


class TolerantDriver(LinuxDriver):
    """What cannot be read as UTF-8 is dropped, with what came in the same moment; the next key counts again."""

    def run_input_thread(self) -> None:
        while True:
            try:
                return super().run_input_thread()
            except UnicodeDecodeError:
                continue
