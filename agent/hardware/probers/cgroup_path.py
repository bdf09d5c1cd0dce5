"""Where this process's control groups are, v1 and v2: from /proc/self/cgroup and /proc/self/mountinfo.

A limit may sit at any level between the process's group and the mount, so the answer is a list of directories, the
group's own first. Inside a container the path of /proc/self/cgroup is often one of the host that is not visible; then
the part below the mount's own root counts, and if that is not there either, the mount itself.
Formats: proc(5) for mountinfo, cgroups(7), Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agent.hardware.sysfs import Machine

V2 = ""
"""The controller name under which the unified hierarchy is found."""

USUAL_MOUNTS = {
    V2: ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
    "cpu": ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuacct,cpu"),
    "cpuset": ("/sys/fs/cgroup/cpuset",),
    "memory": ("/sys/fs/cgroup/memory",),
}
"""Where they are when mountinfo does not tell (systemd's layout)."""


class Mount(NamedTuple):
    """One cgroup file system: where it is mounted and which of its directories is shown there."""

    point: str
    root: str


def directories(machine: Machine, controller: str) -> list[str]:
    """Directories that hold limits for `controller` ("cpu", "cpuset", "memory", or V2), the innermost first."""
    mounts = [mount for mount in [_mount(machine, controller)] if mount is not None]
    if not mounts:
        mounts = [Mount(point, "/") for point in USUAL_MOUNTS[controller] if machine.exists(point)]
    group = _group(machine.text("proc/self/cgroup") or "", controller)
    for mount in mounts:
        found = _levels(machine, mount, group)
        if found:
            return found
    return []


def _levels(machine: Machine, mount: Mount, group: str | None) -> list[str]:
    below = _below(group or "/", mount.root)
    path = mount.point + below
    while not machine.exists(path) and path != mount.point:
        path = path.rpartition("/")[0]
    levels = []
    while path.startswith(mount.point):
        levels.append(path)
        if path == mount.point:
            break
        path = path.rpartition("/")[0]
    return levels


def _below(group: str, root: str) -> str:
    """`group` as seen from a mount that shows `root`; "" when the group lies elsewhere. Never climbs ("/../x")."""
    root = root.rstrip("/")
    if root and group != root and not group.startswith(root + "/"):
        return ""
    steps = [step for step in group[len(root) :].split("/") if step and step != "."]
    return "" if ".." in steps else "".join(f"/{step}" for step in steps)


def _group(text: str, controller: str) -> str | None:
    """The path on the line "ID:controllers:PATH"; v2 has "0::PATH"."""
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3 and controller in fields[1].split(","):
            return fields[2]
    return None


def _mount(machine: Machine, controller: str) -> Mount | None:
    """The first mount whose type and options fit: fields 4 and 5 are root and point, type follows " - "."""
    for line in (machine.text("proc/self/mountinfo") or "").splitlines():
        left, dash, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if not dash or len(before) < 6 or len(after) < 3:
            continue
        v1 = after[0] == "cgroup" and controller in after[2].split(",")
        if after[0] == "cgroup2" if controller == V2 else v1:
            return Mount(point=_unescape(before[4]), root=_unescape(before[3]))
    return None


def _unescape(path: str) -> str:
    """Blanks, tabs, newlines and backslashes are octal in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), path)
