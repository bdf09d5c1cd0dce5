"""A recorded machine made of a few files, for tests about one kind of board."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.hardware.sysfs import Machine, recorded_machine

CPU = "sys/devices/system/cpu"
BOARDS = Path(__file__).parent / "boards"
SAMPLES = Path(__file__).parent / "samples"


def record(root: Path, files: Mapping[str, str | bytes]) -> Machine:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return recorded_machine(root)


def arm_cpuinfo(parts: Mapping[int, tuple[str, str]], features: str = "fp asimd", architecture: int = 8) -> str:
    """cpuinfo of CPUs by id, each (implementer, part)."""
    return "\n".join(
        f"processor\t: {cpu}\nFeatures\t: {features}\nCPU implementer\t: {implementer}\n"
        f"CPU architecture: {architecture}\nCPU part\t: {part}\n"
        for cpu, (implementer, part) in parts.items()
    )


def x86_cpuinfo(
    count: int, model: int, name: str = "a CPU", flags: str = "fpu lm syscall sse2", vendor: str = "GenuineIntel"
) -> str:
    return "\n".join(
        f"processor\t: {cpu}\nvendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: {name}\n"
        f"flags\t\t: {flags}\n"
        for cpu in range(count)
    )
