"""Numbers that must not repeat over restarts and power cuts: the session, and the ids of events."""

from __future__ import annotations

from collections.abc import Callable

from agent.checked_file import CheckedFile

BLOCK = 16


class Counter:
    """Grows by one with each ``advance``; numbers are reserved on disk in blocks, a restart skips the rest of one.

    ``floor()`` is where counting begins when nothing is stored, so that a device whose data were lost is not taken for
    its own past: the time of day in seconds grows faster than any number here.
    """

    def __init__(self, file: CheckedFile, floor: Callable[[], int]) -> None:
        self._file = file
        self._floor = floor
        self._value: int | None = None
        self._reserved = 0

    @property
    def value(self) -> int:
        """The number in use."""
        if self._value is None:
            self._value = self._reserved = self._stored()
        return self._value

    def advance(self) -> int:
        """The next number, safe on disk. Raises OSError."""
        number = self.value + 1
        if number > self._reserved:
            self._file.write(str(number + BLOCK - 1).encode())
            self._reserved = number + BLOCK - 1
        self._value = number
        return number

    def _stored(self) -> int:
        text = (self._file.read() or b"").decode("ascii", errors="replace")
        return int(text) if text.isdigit() else self._floor()
