"""Each finding from the facts that lead to it, and none from the facts that do not."""

from __future__ import annotations

from typing import Any

import pytest

from agent.doctor.diagnose import CHECKS, diagnose, has_fault
from agent.doctor.facts import ClockFacts, DiskFacts, DoctorFacts, LinkFacts, ModelFacts
from agent.doctor.finding import Finding, Severity
from edge_contracts.capabilities import (
    Accelerator,
    AcceleratorKind,
    AcceleratorStatus,
    BudgetSource,
    Capabilities,
    CpuFacts,
    OsFacts,
    RuntimeFact,
)

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
WORKS = RuntimeFact(name="onnxruntime", version="1.32.0", status="usable", targets=["cpu"])
TWO_CPUS = CpuFacts(budget_cpus=2.0, budget_source=BudgetSource.CGROUP)


def device(**parts: Any) -> Capabilities:
    return Capabilities(**{"runtimes": [WORKS], **parts})


def found(**facts: Any) -> list[Finding]:
    return diagnose(DoctorFacts(**{"device": device(), **facts}))


def codes(**facts: Any) -> list[str]:
    return [finding.code for finding in found(**facts)]


def npu(status: AcceleratorStatus, **more: Any) -> Accelerator:
    return Accelerator(kind=AcceleratorKind.NPU, vendor="Intel", name="AI Boost", status=status, **more)


def test_a_device_without_fault_gives_no_finding() -> None:
    assert codes() == []


def test_what_is_unknown_is_no_finding() -> None:
    assert codes(device=Capabilities(runtimes=[WORKS]), distributions={}, clock=None, disk=None) == []


@pytest.mark.parametrize("rival", ["onnxruntime-gpu", "onnxruntime-openvino"])
def test_two_builds_of_onnxruntime_overwrite_each_other(rival: str) -> None:
    (finding,) = found(distributions={"onnxruntime": "1.32.0", rival: "1.22.0"})
    assert finding.code == "onnxruntime-twice"
    assert finding.fix == f"pip uninstall -y onnxruntime {rival} && pip install {rival}"


def test_one_build_of_onnxruntime_is_right_whichever() -> None:
    assert codes(distributions={"onnxruntime-gpu": "1.22.0"}) == []


@pytest.mark.parametrize(("numpy", "is_fault"), [("1.26.4", False), ("2.2.6", True), ("", False)])
def test_tflite_runtime_needs_numpy_1(numpy: str, is_fault: bool) -> None:
    told = codes(distributions={"tflite-runtime": "2.14.0", "numpy": numpy})
    assert told == (["numpy-2-with-tflite-runtime"] if is_fault else [])


def test_numpy_2_is_right_where_litert_takes_the_place_of_tflite_runtime() -> None:
    assert codes(distributions={"tflite-runtime": "2.14.0", "numpy": "2.2.6", "ai-edge-litert": "2.3.0"}) == []


def test_a_broken_runtime_is_named_with_its_reason_and_its_pip_line() -> None:
    broken = RuntimeFact(name="openvino", status="broken", detail="the import was ended by SIGILL")
    (finding,) = found(device=device(runtimes=[WORKS, broken]), pip_lines={"openvino": "pip install 'x[openvino]'"})
    assert finding.code == "openvino-broken"
    assert "SIGILL" in finding.text
    assert "pip install 'x[openvino]'" in finding.fix


def test_a_device_without_any_runtime_can_serve_nothing() -> None:
    missing = RuntimeFact(name="onnxruntime", status="missing")
    assert codes(device=Capabilities(runtimes=[missing])) == ["no-runtime"]


def test_an_npu_without_permission_is_told_with_the_group_and_the_node() -> None:
    chip = npu(AcceleratorStatus.NO_PERMISSION, device_node="/dev/accel/accel0")
    (finding,) = found(device=device(accelerators=[chip]))
    assert finding.code == "npu-no-permission"
    assert "usermod -aG render" in finding.fix
    assert "/dev/accel/accel0" in finding.fix


def test_an_npu_without_firmware_is_a_fault_and_a_gpu_without_driver_a_hint() -> None:
    gpu = Accelerator(kind=AcceleratorKind.GPU, name="HD 630", status=AcceleratorStatus.NO_DRIVER)
    told = found(device=device(accelerators=[gpu, npu(AcceleratorStatus.NO_DRIVER, detail="firmware missing")]))
    assert [(f.code, f.severity) for f in told] == [("npu-no-driver", Severity.FAULT), ("gpu-no-driver", Severity.HINT)]
    assert "firmware missing" in told[0].text


def test_a_usable_npu_is_no_finding() -> None:
    assert codes(device=device(accelerators=[npu(AcceleratorStatus.USABLE, health="OK")])) == []


def test_a_clock_before_the_installation_is_wrong() -> None:
    (finding,) = found(clock=ClockFacts(now_ms=0, built_ms=NOW_MS))
    assert finding.code == "wrong-clock"
    assert "1970-01-01" in finding.text


@pytest.mark.parametrize(("skew_ms", "side"), [(-3_600_000, "60 minutes behind"), (7_200_000, "120 minutes ahead of")])
def test_a_clock_far_from_the_servers_is_wrong(skew_ms: int, side: str) -> None:
    (finding,) = found(clock=ClockFacts(now_ms=NOW_MS + skew_ms, built_ms=NOW_MS - DAY_MS, server_ms=NOW_MS))
    assert side in finding.text


def test_a_clock_a_minute_off_is_right() -> None:
    assert codes(clock=ClockFacts(now_ms=NOW_MS + 60_000, built_ms=NOW_MS, server_ms=NOW_MS)) == []


@pytest.mark.parametrize(("bits", "arch", "is_fault"), [(32, "aarch64", True), (64, "aarch64", False),
                                                        (32, "armv7l", False)])  # fmt: skip
def test_a_32_bit_userland_under_a_64_bit_kernel_is_told(bits: int, arch: str, is_fault: bool) -> None:
    told = codes(device=device(os=OsFacts(userland_bits=bits, kernel_arch=arch)))
    assert told == (["32-bit-userland"] if is_fault else [])


@pytest.mark.parametrize(
    ("free_mb", "total_mb", "is_fault"),
    [(100, 1000, True), (300, 4000, False), (1000, 64_000, True), (2500, 64_000, False)],
)
def test_a_disk_is_nearly_full_below_a_twentieth_or_a_quarter_gigabyte(
    free_mb: int, total_mb: int, is_fault: bool
) -> None:  # fmt: skip
    assert bool(codes(disk=DiskFacts("/data", free_mb << 20, total_mb << 20))) is is_fault


def test_threads_above_the_budget_are_told_of_models_and_of_the_environment() -> None:
    told = found(
        device=device(cpu=TWO_CPUS), models=(ModelFacts("a", threads=2), ModelFacts("b", threads=4)),
        environ={"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "x"},
    )  # fmt: skip
    assert [f.code for f in told] == ["threads-above-budget"] * 2
    assert told[0].text.startswith("b is served with 4 threads")
    assert told[1].text.startswith("OMP_NUM_THREADS=8")


def test_a_budget_of_half_a_cpu_still_has_one_thread() -> None:
    half = CpuFacts(budget_cpus=0.5, budget_source=BudgetSource.CGROUP)
    assert codes(device=device(cpu=half), models=(ModelFacts("a", threads=1),)) == []


def test_requests_that_wait_while_cpus_idle_want_more_threads() -> None:
    waiting = (ModelFacts("a", threads=1, queued=5),)
    (finding,) = found(device=device(cpu=TWO_CPUS), models=waiting, own_cpus=0.9)
    assert (finding.code, finding.severity) == ("low-cpu-use", Severity.HINT)
    assert "--num-threads 2" in finding.fix
    assert codes(device=device(cpu=TWO_CPUS), models=waiting, own_cpus=1.8) == []


def test_gpu_memory_that_idles_while_requests_wait_wants_batching() -> None:
    gpu = Accelerator(kind=AcceleratorKind.GPU, status=AcceleratorStatus.USABLE, memory_mb=8000, memory_used_mb=900)
    told = codes(device=device(accelerators=[gpu]), models=(ModelFacts("a", target="gpu", queued=3),))
    assert told == ["unused-gpu-memory"]
    assert codes(device=device(accelerators=[gpu]), models=(ModelFacts("a", target="gpu", queued=0),)) == []


@pytest.mark.parametrize(
    ("dims", "p99_ms", "is_told"),
    [({"image": ("height", "width")}, 60.0, True), ({"image": ("height",)}, 12.0, False), ({}, 60.0, False)],
)
def test_latency_that_jumps_where_requests_decide_shapes_wants_fixed_shapes(
    dims: dict[str, tuple[str, ...]], p99_ms: float, is_told: bool
) -> None:  # fmt: skip
    told = found(models=(ModelFacts("ocr", open_dims=dims, p50_ms=10.0, p99_ms=p99_ms),))
    assert [f.code for f in told] == (["shape-churn"] if is_told else [])
    assert all("--fixed-shape image=" in f.fix for f in told)


def test_hints_come_after_faults_and_are_no_fault() -> None:
    hints = found(device=device(cpu=TWO_CPUS), models=(ModelFacts("a", threads=1, queued=5),), own_cpus=0.1)
    assert not has_fault(hints)
    both = found(
        device=device(cpu=TWO_CPUS), models=(ModelFacts("a", threads=1, queued=5),), own_cpus=0.1,
        clock=ClockFacts(now_ms=0, built_ms=NOW_MS),
    )  # fmt: skip
    assert [finding.severity for finding in both] == [Severity.FAULT, Severity.HINT]
    assert has_fault(both)


def test_every_check_says_in_its_docstring_what_it_is_about() -> None:
    assert all(check.__doc__ for check in CHECKS)


@pytest.mark.parametrize(
    ("link", "code"),
    [
        (LinkFacts(False, "refused by the broker at fleet:1883 (refused: the server no longer accepts this identity)"),
         "fleet-refuses"),
        (LinkFacts(False, "cannot reach the broker at fleet:1883 (timed out)"), "fleet-not-connected"),
        (LinkFacts(False), None),
        (LinkFacts(True), None),
    ],
)  # fmt: skip
def test_an_enrolled_device_without_its_fleet_is_told(link: LinkFacts, code: str | None) -> None:
    assert codes(link=link, has_daemon=True) == ([code] if code else [])
