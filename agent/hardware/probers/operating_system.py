"""The operating system: its name, its kernel, and the bits of its programs, which are not the kernel's.

A Raspberry Pi may run a 64-bit kernel under a 32-bit userland; wheels and bundles go by the userland.
"""

from __future__ import annotations

import os
import re
import struct

from agent.hardware.probers import cpuinfo, features, lscpu, tegra
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import OsFacts

DEBIAN_ARCHITECTURES = {
    "arm64": (64, "aarch64"),
    "armhf": (32, "armv7l"),
    "armel": (32, "armv6l"),
    "amd64": (64, "x86_64"),
    "i386": (32, "i686"),
    "riscv64": (64, "riscv64"),
}
LOADERS = {
    "aarch64": ("lib/ld-linux-aarch64.so.1", "lib/ld-musl-aarch64.so.1"),
    "x86_64": ("lib64/ld-linux-x86-64.so.2", "lib/ld-musl-x86_64.so.1"),
    "armv7l": ("lib/ld-linux-armhf.so.3", "lib/ld-musl-armhf.so.1"),
    "i686": ("lib/ld-linux.so.2",),
}
"""The dynamic loader that programs of an architecture name; several may be installed (multiarch), so it is weak."""

THIRTY_TWO_BIT = ("armv6l", "armv7l", "armv8l", "i386", "i486", "i586", "i686")
ELF_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""e_machine of the ELF header (System V ABI)."""

PROGRAMS = ("bin/sh", "usr/bin/dash", "bin/busybox", "usr/bin/env", "bin/ls")


class OperatingSystemProber:
    name = "operating system"

    def probe(self, machine: Machine) -> OsFacts:
        release = parse_os_release(machine.text("etc/os-release") or machine.text("usr/lib/os-release") or "")
        kernel, kernel_arch = _kernel(machine)
        bits, arch = _userland(machine, kernel_arch)
        return OsFacts(
            id=release.get("ID"),
            version=release.get("VERSION_ID") or release.get("VERSION_CODENAME"),
            kernel=kernel,
            kernel_arch=kernel_arch,
            userland_bits=bits,
            userland_arch=arch,
            firmware=tegra.release(machine),
        )


def parse_os_release(text: str) -> dict[str, str]:
    """KEY=value lines, values in single, double or no quotes (os-release(5)). Pure."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith("#"):
            continue
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        if value:
            found[key.strip()] = value
    return found


# -- the kernel


def _kernel(machine: Machine) -> tuple[str | None, str | None]:
    """(release, architecture). A 32-bit personality renames the architecture (armv8l, i686); that is undone."""
    if machine.live:
        uname = os.uname()
        return uname.release, native_arch(arch_of_programs(machine.text("proc/sys/kernel/arch"), uname.machine))
    release, arch = _printed_uname(machine)
    release = machine.text("proc/sys/kernel/osrelease") or release or _version_line(machine)
    arch = machine.text("proc/sys/kernel/arch") or arch or lscpu.read(machine).value("architecture")
    return release, native_arch(arch) if arch else arch_of_cpuinfo(cpuinfo.read(machine))


def arch_of_programs(kernel: str | None, seen: str) -> str:
    """Of what the kernel says and what this process sees: the kernel's word undoes a personality, but under user-mode
    emulation (qemu-user) it is that of another machine, whose programs do not run here. Pure.
    """
    return kernel if kernel is not None and _is_arm(kernel) == _is_arm(seen) else seen


def _is_arm(machine_name: str) -> bool:
    return machine_name.startswith(("arm", "aarch64"))


def native_arch(machine_name: str) -> str:
    """uname's machine without what a 32-bit personality does to it: armv8l is how aarch64 shows itself there."""
    return {"armv8l": "aarch64", "arm64": "aarch64", "amd64": "x86_64"}.get(machine_name, machine_name)


def _printed_uname(machine: Machine) -> tuple[str | None, str | None]:
    """From `uname -rm`, else `uname -a`, else the first line of iostat: "Linux RELEASE (host) DATE _ARCH_ (4 CPU)"."""
    fields = (machine.recorded("uname-rm") or "").split()
    if len(fields) >= 2:
        return fields[0], fields[1]
    full = (machine.recorded("uname-a", "uname") or "").split()
    if len(full) >= 4 and full[0] == "Linux":
        known = [word for word in full[3:] if word in (*THIRTY_TWO_BIT, *ELF_MACHINES.values(), "armv8l")]
        return full[2], known[0] if known else None
    iostat = re.match(r"Linux (\S+) .*\s_(\w+)_\s", machine.recorded("iostat-header", "iostat") or "")
    return (iostat.group(1), iostat.group(2)) if iostat else (None, None)


def _version_line(machine: Machine) -> str | None:
    match = re.match(r"Linux version (\S+)", machine.text("proc/version") or "")
    return match.group(1) if match else None


def arch_of_cpuinfo(info: cpuinfo.CpuInfo) -> str | None:
    """The kernel's architecture by the form of its cpuinfo. Pure.

    A 64-bit ARM kernel says "CPU architecture: 8" to every process, a 32-bit one 7 even on a 64-bit core, and also on
    an ARM1176, which only its name tells to be v6. An x86 kernel addresses more than 32 virtual bits only when it is
    64-bit itself, and sets rep_good only then.
    """
    arm = info.first("cpu architecture")
    if arm is not None:
        if arm in ("8", "AArch64"):
            return "aarch64"
        name = info.first("model name") or info.first("processor") or ""
        v6 = arm.startswith("6") or name.startswith("ARMv6")
        return "armv6l" if v6 else "armv7l" if arm.startswith("7") else None
    if (info.first("isa") or "").startswith("rv"):
        return "riscv64" if (info.first("isa") or "").startswith("rv64") else "riscv32"
    if info.first("vendor_id") is None:
        return None
    virtual = re.search(r"(\d{1,3}) bits virtual", info.first("address sizes") or "")
    flags = (info.first("flags") or "").split()
    if virtual:
        return "x86_64" if int(virtual.group(1)) > 32 else "i686"
    return "x86_64" if "lm" in flags and ("rep_good" in flags or "syscall" in flags) else None


# -- the userland


def _userland(machine: Machine, kernel_arch: str | None) -> tuple[int | None, str | None]:
    """(bits, architecture of the packages that fit). By the strongest evidence that this machine has."""
    if machine.live:
        bits = struct.calcsize("P") * 8
        return bits, _arch_with_bits(kernel_arch, bits)
    if kernel_arch in THIRTY_TWO_BIT:
        return 32, kernel_arch
    debian = machine.recorded("dpkg-print-architecture") or (machine.text("var/lib/dpkg/arch") or "").partition("\n")[0]
    if debian in DEBIAN_ARCHITECTURES:
        return DEBIAN_ARCHITECTURES[debian]
    for program in PROGRAMS:
        elf = _elf(machine.raw(program))
        if elf is not None:
            return elf
    long_bit = machine.recorded("getconf-LONG_BIT", "getconf-long-bit")
    if long_bit in ("32", "64"):
        return int(long_bit), _arch_with_bits(kernel_arch, int(long_bit))
    loaders = [arch for arch, paths in LOADERS.items() if any(machine.exists(path) for path in paths)]
    if len(loaders) == 1:
        return (32 if loaders[0] in THIRTY_TWO_BIT else 64), loaders[0]
    return _by_reader_of_cpuinfo(machine, kernel_arch)


def _by_reader_of_cpuinfo(machine: Machine, kernel_arch: str | None) -> tuple[int | None, str | None]:
    """A 64-bit ARM kernel shows a 32-bit process the 32-bit feature list: whoever recorded the file tells by it."""
    flags = set(cpuinfo.read(machine).flags() or [])
    if kernel_arch == "aarch64" and flags:
        bits = 64 if features.table_of(flags) is features.ARM64_FEATURES else 32
        return bits, _arch_with_bits(kernel_arch, bits)
    return None, None


def _arch_with_bits(kernel_arch: str | None, bits: int) -> str | None:
    if bits == 32:
        return {"aarch64": "armv7l", "x86_64": "i686"}.get(kernel_arch or "", kernel_arch)
    return kernel_arch


def _elf(content: bytes | None) -> tuple[int, str] | None:
    """Bits (EI_CLASS) and machine of a little-endian ELF program."""
    if content is None or len(content) < 20 or content[:4] != b"\x7fELF":
        return None
    bits = {1: 32, 2: 64}.get(content[4])
    arch = ELF_MACHINES.get(int.from_bytes(content[18:20], "little"))
    return (bits, arch) if bits is not None and arch is not None else None
