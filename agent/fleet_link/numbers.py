"""Numbers that must not repeat over restarts and power cuts: the session, and the ids of events."""

from __future__ import annotations

from agent.checked_file import CheckedFile

BLOCK = 16


class Counter:
    """Grows by one with each ``advance``; numbers are reserved on disk in blocks, a restart skips the rest of one."""

    def __init__(self, file: CheckedFile) -> None:
        self._file = file
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
        text = (self._file.read() or b"0").decode("ascii", errors="replace")
        return int(text) if text.isdigit() else 0
