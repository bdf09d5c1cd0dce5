"""A small valid bundle as blobs, for tests of the reader."""

from __future__ import annotations

from pathlib import Path

from edge_contracts import oci
from edge_contracts.archive_writer import write_bundle
from edge_contracts.bundle import AccuracyGate, BundleSpec, Lineage, VariantSpec
from edge_contracts.golden import Golden, encode_goldens
from edge_contracts.inference_wire import Tensor
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec

WEIGHTS = b"weights of the model" * 50


def blobs_of_a_bundle(**spec_changes: object) -> tuple[bytes, dict[str, bytes]]:
    """(index bytes, blobs by digest) of a bundle with one variant; ``variant`` and ``file_path`` are its names."""
    blobs: dict[str, bytes] = {}

    def put(data: bytes, media_type: str, **more: object) -> oci.Descriptor:
        descriptor = oci.describe(data, media_type, **more)
        blobs[descriptor.digest] = data
        return descriptor

    variant_name = str(spec_changes.pop("variant", "onnxruntime-fp32-cpu"))
    spec = VariantSpec(
        name=variant_name, runtime="onnxruntime", target="cpu", precision="fp32", entry="model.onnx",
        inputs=[TensorBinding(name="x", source_name="x", dtype="FP32", shape=["batch", 2])],
        outputs=[TensorBinding(name="y", source_name="y", dtype="FP32", shape=["batch", 2])],
    )  # fmt: skip
    file_name = {oci.FILE_PATH_ANNOTATION: str(spec_changes.pop("file_path", "model.onnx"))}
    weight = put(WEIGHTS, oci.MODEL_WEIGHT_MEDIA_TYPE, annotations=file_name)
    layers = [put(oci.canonical_json(spec), oci.VARIANT_SPEC_MEDIA_TYPE), weight]
    variant = _manifest(oci.MODEL_ARTIFACT_TYPE, put(b"{}", oci.MODEL_CONFIG_MEDIA_TYPE), layers)
    tensor = Tensor("x", "FP32", (1, 2), b"\0" * 8)
    goldens = put(encode_goldens([Golden([tensor], [tensor])], model="m"), oci.GOLDENS_MEDIA_TYPE)
    bundle = BundleSpec(**{**_spec(), **spec_changes})  # type: ignore[arg-type]
    top = _manifest(oci.BUNDLE_ARTIFACT_TYPE, put(oci.canonical_json(bundle), oci.BUNDLE_SPEC_MEDIA_TYPE), [goldens])
    manifests = [
        put(oci.canonical_json(m), oci.MANIFEST_MEDIA_TYPE, artifact_type=m.artifact_type) for m in (top, variant)
    ]
    index = oci.Index(schema_version=2, media_type=oci.INDEX_MEDIA_TYPE, manifests=manifests)
    return oci.canonical_json(index), blobs


def write_a_bundle(path: Path, **spec_changes: object) -> Path:
    """A valid bundle file at ``path``."""
    write_bundle(path, *blobs_of_a_bundle(**spec_changes))
    return path


def _spec() -> dict[str, object]:
    shape: list[int | str] = ["batch", 2]
    signature = Signature(
        inputs=[TensorSpec(name="x", dtype="FP32", shape=shape)],
        outputs=[TensorSpec(name="y", dtype="FP32", shape=shape)],
    )
    lineage = Lineage(source_digest="sha256:" + "0" * 64, source_format="onnx")
    facts = {"signature": signature, "golden_count": 1, "gate": AccuracyGate(), "lineage": lineage}
    return {"name": "m", "version": "1.0.0", **facts}


def _manifest(artifact_type: str, config: oci.Descriptor, layers: list[oci.Descriptor]) -> oci.Manifest:
    return oci.Manifest(
        schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE, config=config, layers=layers, artifact_type=artifact_type
    )
