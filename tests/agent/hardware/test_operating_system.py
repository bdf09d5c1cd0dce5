from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers.operating_system import arch_of_programs, parse_os_release
from agent.hardware.probers.tegra import parse_release
from edge_contracts.capabilities import OsFacts
from tests.agent.hardware.recording import arm_cpuinfo, record


def os_of(root: Path, files: Mapping[str, str | bytes]) -> OsFacts:
    return probe(record(root, files)).os


def elf(bits: int, machine: int) -> bytes:
    return b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9) + struct.pack("<HH", 3, machine) + bytes(64)


def test_a_32_bit_userland_on_a_64_bit_kernel_by_dpkg(tmp_path: Path) -> None:
    facts = os_of(
        tmp_path, {"_outputs/uname-rm.txt": "6.6.20-v8+ aarch64", "_outputs/dpkg-print-architecture.txt": "armhf"}
    )
    assert (facts.kernel_arch, facts.userland_bits, facts.userland_arch) == ("aarch64", 32, "armv7l")


def test_a_32_bit_userland_on_a_64_bit_kernel_by_its_programs(tmp_path: Path) -> None:
    facts = os_of(tmp_path, {"proc/sys/kernel/arch": "aarch64", "bin/sh": elf(32, 40)})
    assert (facts.userland_bits, facts.userland_arch) == (32, "armv7l")


def test_a_64_bit_userland_by_its_programs(tmp_path: Path) -> None:
    facts = os_of(tmp_path, {"proc/sys/kernel/arch": "aarch64", "usr/bin/dash": elf(64, 183)})
    assert (facts.userland_bits, facts.userland_arch) == (64, "aarch64")


def test_a_32_bit_process_sees_the_32_bit_list_of_a_64_bit_kernel(tmp_path: Path) -> None:
    facts = os_of(tmp_path, {"proc/cpuinfo": arm_cpuinfo({0: ("0x41", "0xd03")}, "half thumb neon vfpv4", 8)})
    assert (facts.kernel_arch, facts.userland_bits) == ("aarch64", 32)


def test_a_32_bit_kernel_on_a_64_bit_core_is_32_bit(tmp_path: Path) -> None:
    facts = os_of(tmp_path, {"proc/cpuinfo": arm_cpuinfo({0: ("0x41", "0xd03")}, "half thumb neon", 7)})
    assert (facts.kernel_arch, facts.userland_bits) == ("armv7l", 32)


def test_a_pi_zero_is_armv6_though_its_cpuinfo_says_7(tmp_path: Path) -> None:
    text = (
        "processor\t: 0\nmodel name\t: ARMv6-compatible processor rev 7 (v6l)\nFeatures\t: half thumb vfp java tls\n"
        "CPU implementer\t: 0x41\nCPU architecture: 7\nCPU part\t: 0xb76\n"
    )
    assert os_of(tmp_path, {"proc/cpuinfo": text}).kernel_arch == "armv6l"


def test_a_32_bit_personality_does_not_hide_the_kernel(tmp_path: Path) -> None:
    assert os_of(tmp_path, {"_outputs/uname-rm.txt": "6.6.20 armv8l"}).kernel_arch == "aarch64"


def test_an_x86_kernel_with_32_bit_addresses_is_32_bit(tmp_path: Path) -> None:
    text = (
        "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu lm\n"
        "address sizes\t: 36 bits physical, 32 bits virtual\n"
    )
    assert os_of(tmp_path, {"proc/cpuinfo": text}).kernel_arch == "i686"


def test_iostat_and_uname_a_tell_the_kernel_too(tmp_path: Path) -> None:
    first = os_of(
        tmp_path / "a", {"_outputs/iostat-header.txt": "Linux 5.10.63-v7+ (host) \t10/29/2021 \t_armv7l_\t(4 CPU)"}
    )
    second = os_of(
        tmp_path / "b",
        {"_outputs/uname-a.txt": "Linux host 5.15.0-tegra #1 SMP PREEMPT aarch64 aarch64 aarch64 GNU/Linux"},
    )
    assert (first.kernel, first.kernel_arch) == ("5.10.63-v7+", "armv7l")
    assert (second.kernel, second.kernel_arch) == ("5.15.0-tegra", "aarch64")


def test_os_release_takes_every_form_of_quoting() -> None:
    assert parse_os_release('# c\nID=poky\nVERSION_ID=\'3.0.1-x y\'\nNAME="A \\"b\\""\n\nbroken\n') == {
        "ID": "poky",
        "VERSION_ID": "3.0.1-x y",
        "NAME": 'A "b"',
    }


def test_a_release_without_a_number_is_known_by_its_codename(tmp_path: Path) -> None:
    facts = os_of(tmp_path, {"usr/lib/os-release": "ID=debian\nVERSION_CODENAME=trixie\n"})
    assert (facts.id, facts.version) == ("debian", "trixie")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "# R32 (release), REVISION: 7.6, GCID: 38171779, BOARD: t210ref, EABI: aarch64, DATE: Tue Nov  5 2024",
            "32.7.6",
        ),
        (
            "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n# KERNEL_VARIANT: oot\n",
            "36.4.3",
        ),
        ("# R32 (release), REVISION: 5.1, GCID: 26202423, BOARD: t186ref, EABI: aarch64", "32.5.1"),
        ("nothing of the kind", None),
    ],
)
def test_the_release_of_a_jetson(text: str, version: str | None) -> None:
    assert parse_release(text) == version


@pytest.mark.parametrize(
    ("kernel", "seen", "arch"),
    [
        (None, "aarch64", "aarch64"),
        ("aarch64", "armv8l", "aarch64"),
        ("x86_64", "i686", "x86_64"),
        ("x86_64", "aarch64", "aarch64"),
        ("aarch64", "x86_64", "x86_64"),
    ],
)
def test_under_user_mode_emulation_the_architecture_is_that_of_the_programs(
    kernel: str | None, seen: str, arch: str
) -> None:
    assert arch_of_programs(kernel, seen) == arch
