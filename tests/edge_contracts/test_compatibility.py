from __future__ import annotations

import pytest

from edge_contracts.bundle import VariantSpec, VersionRange
from edge_contracts.capabilities import (
    Accelerator,
    AcceleratorKind,
    AcceleratorStatus,
    Capabilities,
    CpuFacts,
    MemoryFacts,
    OsFacts,
    RuntimeFact,
)
from edge_contracts.compatibility import device_architecture, refusals, version_in_range


def variant(**more: object) -> VariantSpec:
    facts: dict[str, object] = {"name": "v", "runtime": "onnxruntime", "target": "cpu", "precision": "fp32"}
    facts |= {"entry": "m.onnx", "inputs": [], "outputs": []}
    return VariantSpec(**{**facts, **more})  # type: ignore[arg-type]


def test_a_device_of_which_nothing_is_known_is_refused_nothing_on_the_cpu() -> None:
    demanding = variant(architectures=["arm64"], cpu_features=["neon"], peak_memory_bytes=10**12)
    assert refusals(demanding, Capabilities()) == []


def test_a_32_bit_userland_under_a_64_bit_kernel_is_32_bit() -> None:
    device = Capabilities(os=OsFacts(kernel_arch="aarch64", userland_bits=32))
    assert device_architecture(device) == "arm"
    assert refusals(variant(architectures=["arm64"]), device) == ["needs arm64, this device is arm (32-bit userland)"]


def test_a_missing_cpu_feature_is_named() -> None:
    device = Capabilities(cpu=CpuFacts(features={"avx2": False}))
    assert refusals(variant(cpu_features=["avx2"]), device) == [
        "needs the CPU feature avx2, this device's CPU lacks it"
    ]


def test_memory_is_judged_by_the_tightest_limit() -> None:
    device = Capabilities(memory=MemoryFacts(total_mb=8000, limit_mb=256))
    assert refusals(variant(peak_memory_bytes=300 * 1024**2), device) == [
        "needs 300 MB of memory, this device allows 256 MB"
    ]


@pytest.mark.parametrize(
    ("status", "refused"),
    [(AcceleratorStatus.USABLE, False), (AcceleratorStatus.NO_DRIVER, True), (AcceleratorStatus.NO_PERMISSION, True)],
)
def test_an_accelerator_must_be_usable(status: AcceleratorStatus, refused: bool) -> None:
    device = Capabilities(accelerators=[Accelerator(kind=AcceleratorKind.NPU, name="Intel NPU", status=status)])
    assert bool(refusals(variant(target="vpu"), device)) is refused


def test_a_gpu_variant_is_refused_where_there_is_no_gpu() -> None:
    assert refusals(variant(target="gpu"), Capabilities()) == ["needs a gpu, this device shows none"]


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (RuntimeFact(name="openvino", status="usable"), "needs the runtime onnxruntime, which is not installed here"),
        (
            RuntimeFact(name="onnxruntime", status="broken", detail="illegal instruction"),
            "needs the runtime onnxruntime, which is broken (illegal instruction) here",
        ),
        (
            RuntimeFact(name="onnxruntime", version="1.16.3", status="usable"),
            "needs onnxruntime >= 1.18, this device has 1.16.3",
        ),
    ],
)
def test_a_runtime_that_is_missing_broken_or_too_old_is_said(fact: RuntimeFact, text: str) -> None:
    spec = variant(runtime_versions=VersionRange(minimum="1.18"))
    assert refusals(spec, Capabilities(runtimes=[fact])) == [text]


@pytest.mark.parametrize(
    ("version", "minimum", "below", "inside"),
    [
        ("1.18.0", "1.18", None, True),
        ("1.9", "1.18", None, False),
        ("2.0rc1", "2.0", None, True),
        ("2026.4.1-1234+abc", "2024.4", "2027", True),
        ("1.20", None, "1.20", False),
        ("1.20.0", None, "1.20", False),
    ],
)
def test_versions_compare_as_numbers(version: str, minimum: str | None, below: str | None, inside: bool) -> None:
    assert version_in_range(version, VersionRange(minimum=minimum, below=below)) is inside
