"""One machine as its files tell it: this one, or a recorded tree that stands for /.

Every reader is tolerant: what is absent, unreadable or damaged is None or empty, never an exception, so that one
broken file costs one fact. No path leaves `root`: symbolic links are resolved inside it, also absolute ones, because
the trees under /sys are full of them and a recorded tree must not read the machine it is looked at on.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.hardware import cpu_list
from agent.hardware.tool_run import run_tool

MAX_FILE_BYTES = 1 << 20
MAX_SYMLINKS = 40
RECORDED_OUTPUT_DIR = "_outputs"

RunTool = Callable[[Sequence[str], float], "str | None"]
"""(argv, timeout_s) -> standard output, or None when the tool is absent, failed or was too slow."""


@dataclass(frozen=True)
class Machine:
    """`live`: it is this machine, so `run` may be called and permissions are a fact. `warnings` has what was odd."""

    root: Path
    live: bool
    run: RunTool | None = None
    warnings: list[str] = field(default_factory=list)

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    # -- paths

    def resolve(self, path: str) -> Path | None:
        """The real place of `path` (relative to root, with or without a leading slash); None if there is nothing."""
        done: list[str] = []
        todo = [part for part in path.split("/") if part not in ("", ".")][::-1]
        followed = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            here = self.root.joinpath(*done, part)
            try:
                target = str(here.readlink())
            except OSError:
                done.append(part)
                continue
            followed += 1
            if followed > MAX_SYMLINKS:
                return None
            if target.startswith("/"):
                done = []
            todo.extend([step for step in target.split("/") if step not in ("", ".")][::-1])
        place = self.root.joinpath(*done)
        try:
            place.lstat()
        except (OSError, ValueError):
            return None
        return place

    def exists(self, path: str) -> bool:
        return self.resolve(path) is not None

    def link_name(self, path: str) -> str | None:
        """The last component of what a symbolic link points to (a `driver` link names the driver), there or not."""
        folder, _, name = path.rpartition("/")
        parent = self.resolve(folder)
        try:
            return (parent / name).readlink().name or None if parent is not None else None
        except (OSError, ValueError):
            return None

    def names(self, path: str, pattern: str = "") -> list[str]:
        """Entries of a directory whose whole name matches `pattern`, in numeric order; empty if there is none."""
        place = self.resolve(path)
        if place is None:
            return []
        try:
            found = [entry.name for entry in place.iterdir()]
        except OSError:
            return []
        return sorted((name for name in found if not pattern or re.fullmatch(pattern, name)), key=_numeric_order)

    def may_use(self, path: str) -> bool | None:
        """Whether this process may read and write a device node. None in a recorded tree: its modes mean nothing."""
        if not self.live:
            return None
        return os.access(self.root.joinpath(path.lstrip("/")), os.R_OK | os.W_OK)

    # -- contents

    def raw(self, path: str) -> bytes | None:
        """At most MAX_FILE_BYTES of a regular file. A pipe or device in a recorded tree is never opened."""
        place = self.resolve(path)
        if place is None:
            return None
        try:
            if not stat.S_ISREG(place.lstat().st_mode):
                return None
            handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _read_up_to(handle, MAX_FILE_BYTES)
        except OSError:
            return None
        finally:
            os.close(handle)

    def text(self, path: str) -> str | None:
        """The text without surrounding blanks and NULs; None if absent, unreadable or empty."""
        content = self.raw(path)
        if content is None:
            return None
        return content.decode("utf-8", "replace").strip("\0 \t\r\n") or None

    def strings(self, path: str) -> list[str]:
        """A device-tree string list: NUL-separated, NUL-ended."""
        content = self.raw(path)
        if content is None:
            return []
        return [part for part in (p.strip() for p in content.decode("utf-8", "replace").split("\0")) if part]

    def integer(self, path: str) -> int | None:
        """A decimal or 0x number alone in a file."""
        content = self.text(path) or ""
        match = re.fullmatch(r"(-?[0-9]{1,18})|0[xX]([0-9a-fA-F]{1,16})", content)
        if match is None:
            return None
        return int(match.group(1)) if match.group(1) else int(match.group(2), 16)

    def cpus(self, path: str) -> list[int] | None:
        """A CPU list ("0,3-5" or "0 1 2"). None if absent, empty or damaged."""
        content = self.text(path)
        if content is None:
            return None
        try:
            return cpu_list.parse(content) or None
        except ValueError:
            self.warn(f"{path}: not a CPU list: {content[:40]!r}")
            return None

    # -- tools

    def recorded(self, *names: str) -> str | None:
        """The first of these recordings DIR/_outputs/NAME.txt that exists; None on the live machine."""
        if self.live:
            return None
        for name in names:
            content = self.text(f"{RECORDED_OUTPUT_DIR}/{name}.txt")
            if content is not None:
                return content
        return None

    def output(self, argv: Sequence[str], recorded_as: Sequence[str], timeout_s: float = 0.5) -> str | None:
        """What a tool prints: executed on the live machine, else read from its recording."""
        if not self.live:
            return self.recorded(*recorded_as)
        return self.run(argv, timeout_s) if self.run is not None else None


def this_machine() -> Machine:
    return Machine(root=Path("/"), live=True, run=run_tool)


def recorded_machine(root: Path) -> Machine:
    return Machine(root=root, live=False)


def _numeric_order(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", name) if p]


def _read_up_to(handle: int, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < limit:
        part = os.read(handle, limit - size)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)
