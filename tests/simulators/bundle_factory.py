"""Bundles for tests, made with edge_contracts only: a working packager in small, for variant files that exist already.

    stub_bundle(path)                       stub backend (agent.inference.backends.stub), no runtime needed
    onnx_bundle(path)                       the same affine model as ONNX (needs `onnx` to build)
    stub_bundle(path, damaged=True)         weights altered, goldens those of the good model, all digests made anew
    write_variants(path, ..., variants=[VariantFiles(...)])    any files you have

Model of both builders: ``logits = x @ weight + bias``, x FP32 ["batch", 8], logits FP32 ["batch", 4]. With the stub a
variant may be told to misbehave: ``stub_bundle(path, behaviour={"crash_at": "run", "signal": 4})``.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from edge_contracts import oci
from edge_contracts.archive_writer import write_bundle
from edge_contracts.bundle import AccuracyGate, BundleSpec, Lineage, VariantSpec
from edge_contracts.golden import Golden, encode_goldens
from edge_contracts.inference_wire import Tensor
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec

INPUTS, CLASSES = 8, 4
SIGNATURE = Signature(
    inputs=[TensorSpec(name="x", dtype="FP32", shape=["batch", INPUTS])],
    outputs=[TensorSpec(name="logits", dtype="FP32", shape=["batch", CLASSES])],
)


@dataclass(frozen=True)
class VariantFiles:
    """A variant and the content of its files, by plain file name."""

    spec: VariantSpec
    files: dict[str, bytes]


@dataclass(frozen=True)
class Affine:
    """``weight[INPUTS][CLASSES]`` and ``bias[CLASSES]``."""

    weight: list[list[float]] = field(default_factory=list)
    bias: list[float] = field(default_factory=list)

    def answer(self, x: Sequence[float]) -> list[float]:
        """The logits of one sample."""
        return [
            sum(value * row[column] for value, row in zip(x, self.weight, strict=True)) + self.bias[column]
            for column in range(len(self.bias))
        ]


def seeded_affine(seed: int = 7) -> Affine:
    """A model with well separated classes."""
    rng = random.Random(seed)
    return Affine(
        [[_f32(rng.uniform(-1, 1)) for _ in range(CLASSES)] for _ in range(INPUTS)],
        [_f32(rng.uniform(-0.5, 0.5)) for _ in range(CLASSES)],
    )


def damaged_affine(model: Affine) -> Affine:
    """The model with its weights turned round: it runs, its answers are wrong."""
    return Affine([[-value for value in reversed(row)] for row in model.weight], model.bias)


def goldens_of(model: Affine, count: int = 8, seed: int = 11) -> list[Golden]:
    """Seeded samples with the model's answers."""
    rng = random.Random(seed)
    goldens = []
    for _ in range(count):
        x = [_f32(rng.uniform(-1, 1)) for _ in range(INPUTS)]
        goldens.append(Golden([_fp32("x", x)], [_fp32("logits", model.answer(x))]))
    return goldens


def stub_variant(
    model: Affine, name: str = "stub-fp32-cpu", *, behaviour: Mapping[str, Any] | None = None, **spec: Any
) -> VariantFiles:
    """The affine model for the stub backend; ``behaviour`` as agent.inference.backends.stub describes it."""
    document = {"format": "mindedge-stub-1", "weight": model.weight, "bias": model.bias, "behaviour": behaviour or {}}
    return VariantFiles(affine_spec(name, "stub", "model.json", **spec), {"model.json": json.dumps(document).encode()})


def onnx_variant(model: Affine, name: str = "onnxruntime-fp32-cpu", **spec: Any) -> VariantFiles:
    """The affine model as ONNX, opset 17."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weight = np.asarray(model.weight, dtype=np.float32)
    nodes = [helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"])]
    graph = helper.make_graph(
        nodes, "affine",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", INPUTS])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(weight, "weight"),
         numpy_helper.from_array(np.asarray(model.bias, dtype=np.float32), "bias")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return VariantFiles(
        affine_spec(name, "onnxruntime", "model.onnx", opset=17, ir_version=8, **spec),
        {"model.onnx": proto.SerializeToString(deterministic=True)},
    )


def openvino_variant(model: Affine, name: str = "openvino-fp32-cpu", **spec: Any) -> VariantFiles:
    """The ONNX file for OpenVINO, which reads it as it is."""
    return VariantFiles(affine_spec(name, "openvino", "model.onnx", **spec), onnx_variant(model).files)


def stub_bundle(
    path: Path, *, behaviour: Mapping[str, Any] | None = None, damaged: bool = False, **bundle: Any
) -> Path:
    """A bundle with one stub variant. ``bundle``: name, version and further BundleSpec fields; ``goldens`` count."""
    return _affine_bundle(path, lambda model: [stub_variant(model, behaviour=behaviour)], damaged, bundle)


def onnx_bundle(path: Path, *, damaged: bool = False, **bundle: Any) -> Path:
    """A bundle with one ONNX fp32 variant."""
    return _affine_bundle(path, lambda model: [onnx_variant(model)], damaged, bundle)


def mixed_bundle(
    path: Path, behaviours: Mapping[str, Mapping[str, Any]], *, damaged: bool = False, **bundle: Any
) -> Path:
    """A bundle with one stub variant per entry of ``behaviours`` (variant name -> behaviour)."""

    def variants(model: Affine) -> list[VariantFiles]:
        return [stub_variant(model, name, behaviour=behaviour) for name, behaviour in behaviours.items()]

    return _affine_bundle(path, variants, damaged, bundle)


def _affine_bundle(
    path: Path, variants: Callable[[Affine], list[VariantFiles]], damaged: bool, bundle: dict[str, Any]
) -> Path:
    good = seeded_affine(bundle.pop("seed", 7))
    goldens = goldens_of(good, bundle.pop("goldens", 8))
    made = variants(damaged_affine(good) if damaged else good)
    return write_variants(path, signature=SIGNATURE, goldens=goldens, variants=made, **bundle)


def write_variants(
    path: Path, *, signature: Signature, goldens: Sequence[Golden], variants: Sequence[VariantFiles],
    name: str = "affine", version: str = "1.0.0", max_drop: float = 0.01, **spec: Any,
) -> Path:  # fmt: skip
    """Write a whole bundle of the given variants to ``path`` and return it. ``spec``: further BundleSpec fields."""
    blobs: dict[str, bytes] = {}

    def keep(data: bytes, media_type: str, **more: Any) -> oci.Descriptor:
        descriptor = oci.describe(data, media_type, **more)
        blobs[descriptor.digest] = data
        return descriptor

    manifests = [_variant_manifest(variant, keep) for variant in variants]
    about = BundleSpec(
        name=name, version=version, signature=signature, golden_count=len(goldens),
        gate=AccuracyGate(max_drop=max_drop),
        lineage=Lineage(source_digest=oci.sha256_digest(b"affine"), source_format="affine"), **spec,
    )  # fmt: skip
    bundle_manifest = oci.Manifest(
        schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE, artifact_type=oci.BUNDLE_ARTIFACT_TYPE,
        config=keep(oci.canonical_json(about), oci.BUNDLE_SPEC_MEDIA_TYPE),
        layers=[keep(encode_goldens(goldens, model=name), oci.GOLDENS_MEDIA_TYPE)],
    )  # fmt: skip
    manifests.insert(0, _keep_manifest(bundle_manifest, keep))
    index = oci.Index(schema_version=2, media_type=oci.INDEX_MEDIA_TYPE, manifests=manifests,
                      artifact_type=oci.BUNDLE_ARTIFACT_TYPE)  # fmt: skip
    write_bundle(path, oci.canonical_json(index), blobs)
    return path


def _variant_manifest(variant: VariantFiles, keep: Callable[..., oci.Descriptor]) -> oci.Descriptor:
    spec = msgspec.structs.replace(variant.spec, size_bytes=sum(len(data) for data in variant.files.values()))
    layers = [keep(oci.canonical_json(spec), oci.VARIANT_SPEC_MEDIA_TYPE)]
    layers += [
        keep(data, oci.MODEL_WEIGHT_MEDIA_TYPE, annotations={oci.FILE_PATH_ANNOTATION: file_name})
        for file_name, data in variant.files.items()
    ]
    config = keep(oci.canonical_json({"descriptor": {"name": spec.name}}), oci.MODEL_CONFIG_MEDIA_TYPE)
    manifest = oci.Manifest(schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE,
                            artifact_type=oci.MODEL_ARTIFACT_TYPE, config=config, layers=layers)  # fmt: skip
    return _keep_manifest(manifest, keep)


def _keep_manifest(manifest: oci.Manifest, keep: Callable[..., oci.Descriptor]) -> oci.Descriptor:
    return keep(oci.canonical_json(manifest), oci.MANIFEST_MEDIA_TYPE, artifact_type=manifest.artifact_type)


def affine_spec(name: str, runtime: str, entry: str, **more: Any) -> VariantSpec:
    """The spec of an affine variant; ``more`` replaces or adds fields."""
    fields: dict[str, Any] = {"precision": "fp32", "target": "cpu", **more}
    return VariantSpec(
        name=name, runtime=runtime, entry=entry,
        inputs=[TensorBinding(name="x", source_name="x", dtype="FP32", shape=["batch", INPUTS])],
        outputs=[TensorBinding(name="logits", source_name="logits", dtype="FP32", shape=["batch", CLASSES])],
        **fields,
    )  # fmt: skip


def _fp32(name: str, values: Sequence[float]) -> Tensor:
    return Tensor(name, "FP32", (1, len(values)), struct.pack(f"<{len(values)}f", *values))


def _f32(value: float) -> float:
    """Rounded to a float32, so that every runtime holds the very same weights."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
