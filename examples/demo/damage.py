"""Damages a good bundle after packing, the way only numbers reveal: every variant's weights are changed inside its blob
and all digests are made anew, while the goldens stay those of the good model.

    python -m examples.demo.damage GOOD.mindie BAD.mindie --version 1.1.0

The kernels of each layer are put in another order (first axis reversed), so sizes, value ranges and structure stay
plausible: every file still loads, runs fast and answers wrongly.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from edge_contracts import oci
from edge_contracts.archive import BundleArchive, open_bundle
from edge_contracts.archive_writer import write_bundle
from edge_contracts.bundle import BundleSpec, Variant

MIN_WEIGHT_BYTES = 256
_OPENVINO_DTYPES = {"f32": "<f4", "f16": "<f2", "i8": "i1", "u8": "u1"}
Files = dict[str, bytearray]


def damage(good: Path, bad: Path, version: str) -> int:
    """Write the damaged bundle; returns the number of changed tensors. Raises ValueError if a variant had none."""
    archive = open_bundle(good)
    blobs: dict[str, bytes] = {}
    replaced: dict[str, bytes] = {}
    changed = 0
    for variant in archive.bundle.variants:
        files: Files = {file.path: bytearray(archive.blob(file.digest)) for file in variant.files}
        count = _DAMAGE_BY_RUNTIME[variant.spec.runtime](files, variant)
        if count == 0:
            raise ValueError(f"variant {variant.name}: no weights found to damage")
        changed += count
        replaced.update({file.digest: bytes(files[file.path]) for file in variant.files})
    index = _rebuild(archive, replaced, blobs, version)
    write_bundle(bad, index, blobs)
    return changed


def _rebuild(archive: BundleArchive, replaced: dict[str, bytes], blobs: dict[str, bytes], version: str) -> bytes:
    """Make every digest from the weights up to the index anew; ``blobs`` is filled."""

    def put(data: bytes, like: oci.Descriptor) -> oci.Descriptor:
        descriptor = msgspec.structs.replace(like, digest=oci.sha256_digest(data), size=len(data))
        blobs[descriptor.digest] = data
        return descriptor

    def renew(descriptor: oci.Descriptor) -> oci.Descriptor:
        data = replaced.get(descriptor.digest) or archive.blob(descriptor.digest)
        if descriptor.media_type == oci.BUNDLE_SPEC_MEDIA_TYPE:
            spec = msgspec.json.decode(data, type=BundleSpec)
            data = oci.canonical_json(msgspec.structs.replace(spec, version=version))
        return put(data, descriptor)

    index = msgspec.json.decode(archive.index_bytes, type=oci.Index)
    manifests = []
    for descriptor in index.manifests:
        manifest = msgspec.json.decode(archive.blob(descriptor.digest), type=oci.Manifest)
        layers = [renew(layer) for layer in manifest.layers]
        manifest = msgspec.structs.replace(manifest, config=renew(manifest.config), layers=layers)
        manifests.append(put(oci.canonical_json(manifest), descriptor))
    return oci.canonical_json(msgspec.structs.replace(index, manifests=manifests))


def _damage_onnx(files: Files, variant: Variant) -> int:
    import onnx
    from onnx import numpy_helper

    model = onnx.load_model_from_string(bytes(files[variant.spec.entry]))
    count = 0
    for weight in model.graph.initializer:
        array = numpy_helper.to_array(weight)
        if array.ndim >= 2 and array.nbytes >= MIN_WEIGHT_BYTES:
            weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array[::-1]), weight.name))
            count += 1
    files[variant.spec.entry] = bytearray(model.SerializeToString(deterministic=True))
    return count


def _damage_openvino(files: Files, variant: Variant) -> int:
    weights = files[str(Path(variant.spec.entry).with_suffix(".bin"))]
    count = 0
    for data in ET.fromstring(bytes(files[variant.spec.entry])).iter("data"):
        dtype, shape = _OPENVINO_DTYPES.get(data.get("element_type", "")), data.get("shape", "")
        if dtype is None or data.get("offset") is None or "," not in shape:
            continue
        sizes = [int(size) for size in shape.split(",")]
        offset, size = int(data.get("offset", 0)), int(data.get("size", 0))
        count += _reverse(np.frombuffer(weights, dtype, int(np.prod(sizes)), offset).reshape(sizes), size)
    return count


def _damage_tflite(files: Files, variant: Variant) -> int:
    from ai_edge_litert import schema_py_generated as schema

    content = files[variant.spec.entry]
    model = schema.Model.GetRootAs(content, 0)
    graph = model.Subgraphs(0)
    dtypes = {schema.TensorType.FLOAT32: "<f4", schema.TensorType.FLOAT16: "<f2", schema.TensorType.INT8: "i1"}
    count, seen = 0, set()
    for tensor in (graph.Tensors(i) for i in range(graph.TensorsLength())):
        raw = model.Buffers(tensor.Buffer()).DataAsNumpy()
        if isinstance(raw, int) or tensor.Type() not in dtypes or tensor.Buffer() in seen or tensor.ShapeLength() < 2:
            continue
        seen.add(tensor.Buffer())
        count += _reverse(raw.view(dtypes[tensor.Type()]).reshape(tensor.ShapeAsNumpy()), raw.nbytes)
    return count


def _reverse(weights: np.ndarray, size: int) -> int:
    """Reverse the first axis that is longer than one, in place; 1 when something was changed."""
    axis = next((axis for axis, length in enumerate(weights.shape) if length > 1), None)
    if size < MIN_WEIGHT_BYTES or axis is None:
        return 0
    weights[...] = np.flip(weights, axis).copy()
    return 1


_DAMAGE_BY_RUNTIME: dict[str, Callable[[Files, Variant], int]] = {
    "onnxruntime": _damage_onnx,
    "openvino": _damage_openvino,
    "tflite": _damage_tflite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("good", type=Path)
    parser.add_argument("bad", type=Path)
    parser.add_argument("--version", required=True)
    args = parser.parse_args()
    print(f"{args.bad}: {damage(args.good, args.bad, args.version)} weight tensors changed")


if __name__ == "__main__":
    main()
