"""Errors of the packager.

PackagerError
├── ToolchainError            the environment of a converter cannot be had
│   ├── UnknownToolchain      no toolchain has that name; carries those there are
│   ├── ToolchainMissing      it is not installed here; carries the line that installs it
│   ├── ToolchainUnsupported  it does not exist for this Python
│   └── ToolchainInstallFailed  making the environment failed; carries the step and the log's last lines
├── ConverterError            a converter gave no model
│   └── ConversionTimedOut    it was stopped after its time; carries that time
├── ModelRefused              the model is no model, or one that cannot be packed; nothing is written
├── SamplesRefused            a file of samples (calibration, goldens) does not fit the model
├── WrongUsage                the command line cannot be read; carries the usage
├── RecipeRefused             options or a recipe file ask for what does not exist
├── UnsignedRefused           nobody vouches for a bundle, and that was not accepted
├── RuntimeRefused            a runtime does not load or run a file, or dies of it
├── RegistryFailed            a registry refuses, is away, or sends other bytes
└── NothingToPack             every variant was left out
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


class ModelRefused(PackagerError):
    """``path`` is the file, ``reason`` names the tensor, node or operator and the way out."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SamplesRefused(PackagerError):
    """``path`` is the file, ``reason`` names the key."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class WrongUsage(PackagerError):
    """``usage`` is the usage of the command that was typed, several lines."""

    def __init__(self, reason: str, usage: str) -> None:
        super().__init__(reason)
        self.usage = usage


class UnsignedRefused(PackagerError):
    """``what`` is the bundle's file or address."""

    def __init__(self, what: object, reason: str) -> None:
        super().__init__(f"{what}{reason}; --allow-unsigned accepts it")
        self.what = what


class RecipeRefused(PackagerError):
    """``option`` is the flag or the key of the recipe."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


class RuntimeRefused(PackagerError):
    """``runtime`` is its name; ``reason`` is what it said, in one line."""

    def __init__(self, runtime: str, reason: str) -> None:
        super().__init__(f"{runtime} {reason}")
        self.runtime = runtime
        self.reason = reason


class RegistryFailed(PackagerError):
    """``registry`` is its address."""

    def __init__(self, registry: str, reason: str) -> None:
        super().__init__(f"registry {registry}: {reason}")
        self.registry = registry
        self.reason = reason


class NothingToPack(PackagerError):
    """``reasons`` are those of the variants, by name."""

    def __init__(self, reasons: Sequence[tuple[str, str]]) -> None:
        first = f"; {reasons[0][0]}: {reasons[0][1]}" if reasons else ""
        super().__init__(f"no variant can be packed{first}")
        self.reasons = tuple(reasons)
