"""Errors of the packager.

PackagerError
├── ToolchainError            the environment of a converter cannot be had
│   ├── UnknownToolchain      no toolchain has that name; carries those there are
│   ├── ToolchainMissing      it is not installed here; carries the line that installs it
│   ├── ToolchainUnsupported  it does not exist for this Python
│   └── ToolchainInstallFailed  making the environment failed; carries the step and the log's last lines
└── ConverterError            a converter gave no model
    └── ConversionTimedOut    it was stopped after its time; carries that time
"""

from __future__ import annotations

from collections.abc import Sequence


class PackagerError(Exception):
    """Root. ``str()`` is one line that names the thing and the way out."""


class ToolchainError(PackagerError):
    """``name`` is the toolchain."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"toolchain {name}: {reason}")
        self.name = name
        self.reason = reason


class UnknownToolchain(ToolchainError):
    """``known`` are the names that exist."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name, f"there is none of that name; there is {', '.join(known)}")
        self.known = tuple(known)


class ToolchainMissing(ToolchainError):
    """``install_line`` is what to type."""

    def __init__(self, name: str) -> None:
        self.install_line = f"mindpack toolchain install {name}"
        super().__init__(name, f"not installed; run: {self.install_line}")


class ToolchainUnsupported(ToolchainError):
    """``python`` is this interpreter's version, ``supported`` the range that works."""

    def __init__(self, name: str, python: str, supported: str) -> None:
        super().__init__(name, f"works with Python {supported}, this is {python}; run mindpack with one of those")
        self.python = python
        self.supported = supported


class ToolchainInstallFailed(ToolchainError):
    """``step`` is what was being done, ``last_lines`` the end of its output, for a log."""

    def __init__(self, name: str, step: str, reason: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(name, f"{step} failed: {reason}")
        self.step = step
        self.last_lines = tuple(last_lines)


class ConverterError(PackagerError):
    """``converter`` names the tool, ``last_lines`` hold the end of its output, for a log."""

    def __init__(self, converter: str, reason: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(f"{converter}: {reason}")
        self.converter = converter
        self.reason = reason
        self.last_lines = tuple(last_lines)


class ConversionTimedOut(ConverterError):
    """``timeout_s`` is the time that it was given."""

    def __init__(self, converter: str, timeout_s: float, last_lines: Sequence[str] = ()) -> None:
        super().__init__(converter, f"stopped after {timeout_s:g} s without a result", last_lines)
        self.timeout_s = timeout_s
