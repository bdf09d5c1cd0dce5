from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.inference.lookup import backend
from agent.selection.candidates import (
    Entrant,
    default_baseline,
    entrants,
    first_of_groups,
    option_words,
    takes_batches,
    with_batches,
)
from edge_contracts.archive import open_bundle
from edge_contracts.bundle import Variant
from edge_contracts.capabilities import Capabilities, CpuFacts, MemoryFacts, OsFacts, RuntimeFact
from edge_contracts.profiles import Advice, RuntimeAdvice
from edge_contracts.tensor_signature import TensorBinding
from tests.simulators.bundle_factory import (
    SIGNATURE,
    goldens_of,
    onnx_variant,
    openvino_variant,
    seeded_affine,
    stub_variant,
    write_variants,
)

USABLE = Capabilities(
    os=OsFacts(userland_arch="x86_64"), cpu=CpuFacts(features={"avx512_bf16": True, "avx2": False}),
    memory=MemoryFacts(total_mb=1000),
    runtimes=[RuntimeFact(name=name, version="1.30", status="usable") for name in ("onnxruntime", "openvino", "stub")],
)  # fmt: skip


def stub_aware(name: str):  # type: ignore[no-untyped-def]
    return backend(name, environ={**os.environ, "MINDEDGE_STUB_BACKEND": "1"})


@pytest.fixture
def folder(tmp_path: Path) -> BundleFolder:
    model = seeded_affine()
    variants = [
        onnx_variant(model),
        openvino_variant(model),
        stub_variant(model, "on-a-gpu", target="gpu"),
        stub_variant(model, "for-arm", architectures=["arm64"]),
        stub_variant(model, "for-avx2", cpu_features=["avx2"]),
        stub_variant(model, "huge", peak_memory_bytes=4 << 30),
        stub_variant(model, "not-fetched"),
    ]
    path = write_variants(tmp_path / "b.mindie", signature=SIGNATURE, goldens=goldens_of(model), variants=variants)
    fetched = [variant.spec.name for variant in variants if variant.spec.name != "not-fetched"]
    return lay_out(open_bundle(path), tmp_path / "bundle", fetched)


def test_every_variant_that_cannot_run_is_dropped_with_its_reason(folder: BundleFolder) -> None:
    found, refused = entrants(folder, USABLE, 2, stub_aware)
    reasons = {line.name: line.reason or "" for line in refused}
    assert {entrant.variant.name for entrant in found} == {"onnxruntime-fp32-cpu", "openvino-fp32-cpu"}
    assert "needs a gpu" in reasons["on-a-gpu"]
    assert "needs arm64, this device is amd64" in reasons["for-arm"]
    assert "avx2" in reasons["for-avx2"]
    assert "needs 4096 MB" in reasons["huge"]
    assert "not fetched" in reasons["not-fetched"]


def test_without_the_stub_variable_no_stub_variant_can_run(folder: BundleFolder) -> None:
    _, refused = entrants(folder, Capabilities(), 2, lambda name: backend(name, environ={}))
    assert "no known backend" in {line.name: line.reason or "" for line in refused}["huge"]


def test_names_are_unique_and_tell_what_is_special(folder: BundleFolder) -> None:
    found, _ = entrants(folder, USABLE, 4, stub_aware)
    names = [entrant.name for entrant in found]
    assert len(set(names)) == len(names)
    assert "openvino-fp32-cpu t4 bf16" in names
    assert "onnxruntime-fp32-cpu t4 spin" in names


def test_one_of_each_group_is_raced_first_the_plain_onnx_file_ahead(folder: BundleFolder) -> None:
    found, _ = entrants(folder, USABLE, 2, stub_aware)
    firsts = first_of_groups(found)
    assert [entrant.name for entrant in firsts] == [
        "onnxruntime-fp32-cpu t2", "openvino-fp32-cpu t2", "openvino-fp32-cpu t2 bf16",
    ]  # fmt: skip
    assert [entrant.precision for entrant in firsts] == ["fp32", "fp32", "bf16"]


def test_a_profile_says_what_comes_earlier_and_what_last_but_the_baseline_stays_first(folder: BundleFolder) -> None:
    model = seeded_affine()
    advice = [
        RuntimeAdvice(name="stub", advice=Advice.AVOID, precision="int8", reason="slow", source="a test"),
        RuntimeAdvice(name="stub", advice=Advice.TRY, precision="bf16", reason="fast", source="a test"),
    ]
    variants = [onnx_variant(model), *(stub_variant(model, p, precision=p) for p in ("int8", "fp16", "bf16"))]
    found = [
        Entrant(Variant(variant.spec.name, variant.spec, []), {"threads": 1}) for variant in reversed(variants)
    ]  # fmt: skip
    names = [entrant.variant.name for entrant in first_of_groups(found, advice)]
    assert names == ["onnxruntime-fp32-cpu", "bf16", "fp16", "int8"]


def test_for_throughput_batches_are_tried_where_the_leading_axis_is_open(folder: BundleFolder) -> None:
    found, _ = entrants(folder, USABLE, 1, stub_aware)
    names = {entrant.name for entrant in with_batches(found, SIGNATURE)}
    assert {"onnxruntime-fp32-cpu t1 batch4", "onnxruntime-fp32-cpu t1 batch16"} <= names
    frozen = TensorBinding(name="x", source_name="x", dtype="FP32", shape=[1, 8])
    spec = msgspec.structs.replace(found[0].variant.spec, inputs=[frozen])
    assert not takes_batches(Variant("d", spec, []), SIGNATURE)


def test_the_baseline_is_onnx_runtime_with_nothing_set(folder: BundleFolder) -> None:
    found, _ = entrants(folder, USABLE, 2, stub_aware)
    baseline = default_baseline(found, stub_aware)
    assert baseline is not None
    assert baseline.threads == 0
    assert default_baseline([e for e in found if e.variant.spec.runtime != "onnxruntime"], stub_aware) is None


def test_options_in_words() -> None:
    assert option_words({"threads": 2, "spinning": False, "provider": "CPUExecutionProvider"}) == ["t2"]
    assert option_words({"threads": 1, "execution": "parallel", "inter_threads": 2}) == ["t1", "parallel2"]
    assert option_words({"provider": "CPUExecutionProvider"}) == ["default"]
    assert option_words({"threads": 1, "provider": "CUDAExecutionProvider"}) == ["t1", "CUDA"]
    assert option_words({"threads": 1, "arena": False, "xnnpack": False}) == ["t1", "no-arena", "no-xnnpack"]
