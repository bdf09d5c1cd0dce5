"""Which variants fit a device, and why not: pure; asked by the device before a download and by the server."""

from __future__ import annotations

from edge_contracts.bundle import VariantSpec, VersionRange
from edge_contracts.capabilities import AcceleratorKind, AcceleratorStatus, Capabilities, RuntimeFact

ARCHITECTURE_OF_USERLAND = {
    "x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm", "armv6l": "arm",
    "armhf": "arm", "i686": "386", "riscv64": "riscv64",
}  # fmt: skip
_KINDS_OF_TARGET = {
    "gpu": {AcceleratorKind.GPU},
    "vpu": {AcceleratorKind.NPU, AcceleratorKind.VPU, AcceleratorKind.TPU},
}


def refusals(variant: VariantSpec, device: Capabilities) -> list[str]:
    """Reasons why ``variant`` cannot run on ``device``, each "needs X, this device is Y"; empty when it fits.

    Unknown facts never refuse: what is not known is tried.
    """
    reasons = [
        _architecture(variant, device),
        *_cpu_features(variant, device),
        _memory(variant, device),
        _accelerator(variant, device),
        _runtime(variant, device),
    ]
    return [reason for reason in reasons if reason]


def device_architecture(device: Capabilities) -> str | None:
    """The OCI architecture whose programs run here: userland decides, a 64-bit kernel may run a 32-bit one."""
    userland = device.os.userland_arch
    if userland is None:
        kernel, bits = device.os.kernel_arch, device.os.userland_bits
        userland = {"aarch64": "armv7l", "x86_64": "i686"}.get(kernel or "", kernel) if bits == 32 else kernel
    return ARCHITECTURE_OF_USERLAND.get(userland or "", userland)


def version_in_range(version: str, allowed: VersionRange) -> bool:
    """Whether dotted ``version`` is at least ``minimum`` and below ``below``; local and pre-release tails count not."""
    number = _numbers(version)
    if allowed.minimum is not None and number < _numbers(allowed.minimum):
        return False
    return allowed.below is None or number < _numbers(allowed.below)


def _architecture(variant: VariantSpec, device: Capabilities) -> str | None:
    actual = device_architecture(device)
    if not variant.architectures or actual is None or actual in variant.architectures:
        return None
    bits = f" ({device.os.userland_bits}-bit userland)" if device.os.userland_bits else ""
    return f"needs {' or '.join(variant.architectures)}, this device is {actual}{bits}"


def _cpu_features(variant: VariantSpec, device: Capabilities) -> list[str]:
    missing = [name for name in variant.cpu_features if device.cpu.features.get(name) is False]
    return [f"needs the CPU feature {name}, this device's CPU lacks it" for name in missing]


def _memory(variant: VariantSpec, device: Capabilities) -> str | None:
    limits = [mb for mb in (device.memory.limit_mb, device.memory.total_mb) if mb is not None]
    if variant.peak_memory_bytes is None or not limits:
        return None
    needed_mb = -(-variant.peak_memory_bytes // (1024 * 1024))
    if needed_mb <= min(limits):
        return None
    return f"needs {needed_mb} MB of memory, this device allows {min(limits)} MB"


def _accelerator(variant: VariantSpec, device: Capabilities) -> str | None:
    kinds = _KINDS_OF_TARGET.get(variant.target)
    if kinds is None:
        return None
    found = [item for item in device.accelerators if item.kind in kinds]
    if any(item.status in (AcceleratorStatus.USABLE, AcceleratorStatus.UNKNOWN) for item in found):
        return None
    if not found:
        return f"needs a {variant.target}, this device shows none"
    first = found[0]
    return f"needs a usable {variant.target}, {first.name or first.vendor or first.kind.value} is {first.status.value}"


def _runtime(variant: VariantSpec, device: Capabilities) -> str | None:
    if not device.runtimes:
        return None
    installed = [fact for fact in device.runtimes if fact.name == variant.runtime]
    usable = [fact for fact in installed if fact.status not in ("missing", "broken")]
    if not usable:
        return f"needs the runtime {variant.runtime}, {_state_of(installed)} here"
    if any(fact.version is None or version_in_range(fact.version, variant.runtime_versions) for fact in usable):
        return None
    return f"needs {variant.runtime} {_range_text(variant.runtime_versions)}, this device has {usable[0].version}"


def _state_of(installed: list[RuntimeFact]) -> str:
    if not installed or installed[0].status == "missing":
        return "which is not installed"
    return f"which is broken ({installed[0].detail or 'no detail'})"


def _range_text(allowed: VersionRange) -> str:
    parts = [f">= {allowed.minimum}"] if allowed.minimum else []
    return " and ".join(parts + ([f"< {allowed.below}"] if allowed.below else []))


def _numbers(version: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
