"""CPU time of our own processes, so that what is left of a CPU's time is known to be others'.

Children are found by their parent's id: /proc/PID/task/TID/children is there only with CONFIG_PROC_CHILDREN.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PARENT = 1
_TIMES = slice(11, 15)
_OWN_TIMES = slice(11, 13)
_LAST_CPU = 36
"""Places in /proc/PID/stat after the name: utime, stime, cutime, cstime; for a thread its own two (proc(5))."""


@dataclass(frozen=True)
class TreeTimes:
    """Clock ticks. ``total_ticks``: of the tree and of its dead that were waited for, so it only grows.

    thread_ticks: (pid, tid) -> (ticks, the CPU it last ran on).
    """

    total_ticks: int
    thread_ticks: dict[tuple[int, int], tuple[int, int]]


def read_tree(proc: Path, root_pid: int) -> TreeTimes | None:
    """The tree below ``root_pid``; None where processes cannot be read."""
    table = dict(_processes(proc))
    if root_pid not in table:
        return None
    tree = _below(root_pid, {pid: parent for pid, (parent, _) in table.items()})
    threads = {key: value for pid in tree for key, value in _threads(proc / str(pid), pid)}
    return TreeTimes(sum(table[pid][1] for pid in tree), threads)


def by_cpu(before: TreeTimes, after: TreeTimes) -> dict[int, int]:
    """Ticks that our threads took between two readings, by the CPU each was last seen on. Pure."""
    spent: dict[int, int] = {}
    for key, (ticks, cpu) in after.thread_ticks.items():
        earlier = before.thread_ticks.get(key, (0, cpu))[0]
        spent[cpu] = spent.get(cpu, 0) + max(0, ticks - earlier)
    return spent


def _below(root_pid: int, parent_of: dict[int, int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parent_of.items():
        children.setdefault(parent, []).append(pid)
    tree, waiting = [], [root_pid]
    while waiting:
        pid = waiting.pop()
        tree.append(pid)
        waiting += children.get(pid, [])
    return tree


def _processes(proc: Path) -> Iterator[tuple[int, tuple[int, int]]]:
    """(pid, (parent, ticks)); one that ends meanwhile is left out."""
    for pid in _numbers(proc):
        fields = _fields(proc / str(pid) / "stat")
        try:
            yield pid, (int(fields[_PARENT]), sum(map(int, fields[_TIMES])))
        except (IndexError, ValueError):
            continue


def _threads(process: Path, pid: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for tid in _numbers(process / "task"):
        fields = _fields(process / "task" / str(tid) / "stat")
        try:
            yield (pid, tid), (sum(map(int, fields[_OWN_TIMES])), int(fields[_LAST_CPU]))
        except (IndexError, ValueError):
            continue


def _numbers(folder: Path) -> Iterable[int]:
    try:
        return [int(entry.name) for entry in os.scandir(folder) if entry.name.isdecimal()]
    except OSError:
        return []


def _fields(file: Path) -> list[str]:
    """What follows the name, which may hold blanks and brackets of its own."""
    try:
        return file.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
