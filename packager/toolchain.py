"""Environments of converters: what one consists of, where it lies, whether it is there.

One folder a toolchain, `ROOT/NAME-HASH`, the hash over its requirements and the Python that runs it: another
requirement or another Python is another folder. A folder of that name is always complete, since installing builds
elsewhere and renames (`packager.toolchain_install`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from packager.errors import PackagerError, ToolchainMissing, ToolchainUnsupported, UnknownToolchain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = "packager.toolchains"
HASH_LENGTH = 12


class InstallStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of pip: `requirements` with `options`."""

    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()


class Toolchain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A converter's environment. `smoke` is Python that must run in it; `min_python`, `max_python` are inclusive."""

    name: str
    summary: str
    python: str
    min_python: tuple[int, int]
    max_python: tuple[int, int]
    installed_mb: int
    smoke: str
    steps: tuple[InstallStep, ...]

    def folder_name(self, python: tuple[int, int]) -> str:
        """`NAME-HASH`: equal exactly for equal steps under the same Python."""
        hashed = msgspec.json.encode([python, self.steps])
        return f"{self.name}-{hashlib.sha256(hashed).hexdigest()[:HASH_LENGTH]}"

    def require_python(self, python: tuple[int, int]) -> None:
        """Raise ToolchainUnsupported unless it works with that Python."""
        if not self.min_python <= python <= self.max_python:
            raise ToolchainUnsupported(self.name, ".".join(map(str, python)), self.python)


def toolchain_names() -> tuple[str, ...]:
    files = (entry.name for entry in resources.files(PACKAGE).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_toolchain(name: str) -> Toolchain:
    """Raise UnknownToolchain for a name that is not one of `toolchain_names()`."""
    known = toolchain_names()
    if name not in known:
        raise UnknownToolchain(name, known)
    text = resources.files(PACKAGE).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    tree: dict[str, Any] = tomllib.loads(text)
    return msgspec.convert({**tree, "name": name}, Toolchain)


def toolchains_root(environ: Mapping[str, str]) -> Path:
    """MINDEDGE_TOOLCHAINS, else `mindedge/toolchains` in the user's cache folder. Raises PackagerError without any."""
    if chosen := environ.get("MINDEDGE_TOOLCHAINS"):
        return Path(chosen).absolute()
    cache = environ.get("XDG_CACHE_HOME")
    if cache and Path(cache).is_absolute():  # the XDG specification ignores a relative path
        return Path(cache) / "mindedge" / "toolchains"
    home = environ.get("HOME")
    if not home:
        raise PackagerError("no cache folder: neither HOME nor XDG_CACHE_HOME is set; set MINDEDGE_TOOLCHAINS")
    return Path(home).absolute() / ".cache" / "mindedge" / "toolchains"


def running_python() -> tuple[int, int]:
    return sys.version_info.major, sys.version_info.minor


class Environment(msgspec.Struct, frozen=True):
    """An installed toolchain's folder."""

    toolchain: Toolchain
    folder: Path

    @property
    def scripts(self) -> Path:
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        return self.scripts / "python"


def environment_folder(toolchain: Toolchain, root: Path) -> Path:
    return root / toolchain.folder_name(running_python())


def installed(toolchain: Toolchain, root: Path) -> Environment | None:
    """The environment, or None. One whose base Python was removed counts as absent."""
    environment = Environment(toolchain, environment_folder(toolchain, root))
    return environment if environment.python.exists() else None


def require_installed(toolchain: Toolchain, root: Path) -> Environment:
    """Raise ToolchainUnsupported or ToolchainMissing when there is none."""
    toolchain.require_python(running_python())
    environment = installed(toolchain, root)
    if environment is None:
        raise ToolchainMissing(toolchain.name)
    return environment
