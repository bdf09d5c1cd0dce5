"""Put a bundle together: specs, files and goldens become blobs, manifests and one index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_contracts import oci
from edge_contracts.bundle import BundleSpec, VariantSpec
from packager.file_digest import file_digest

FORMATS = {"onnxruntime": "onnx", "openvino": "openvino", "tflite": "tflite"}
PRECISIONS = {"fp32": "float32", "fp16": "float16", "int8": "int8"}


@dataclass(frozen=True)
class Assembled:
    """The index and every blob it leads to; files stay where they are."""

    index_bytes: bytes
    blobs: dict[str, bytes | Path]

    @property
    def digest(self) -> str:
        """The bundle's digest."""
        return oci.sha256_digest(self.index_bytes)


@dataclass
class _Blobs:
    held: dict[str, bytes | Path] = field(default_factory=dict)

    def keep(self, data: bytes, media_type: str, **more: Any) -> oci.Descriptor:
        descriptor = oci.describe(data, media_type, **more)
        self.held[descriptor.digest] = data
        return descriptor

    def keep_file(self, path: Path, media_type: str, **more: Any) -> oci.Descriptor:
        descriptor = oci.Descriptor(media_type=media_type, digest=file_digest(path), size=path.stat().st_size, **more)
        self.held[descriptor.digest] = path
        return descriptor


def assemble(spec: BundleSpec, goldens: bytes, variants: Sequence[tuple[VariantSpec, dict[str, Path]]]) -> Assembled:
    """``variants``: each spec with its files by plain name. The same arguments give the same bytes."""
    blobs = _Blobs()
    about = oci.Manifest(
        schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE, artifact_type=oci.BUNDLE_ARTIFACT_TYPE,
        config=blobs.keep(oci.canonical_json(spec), oci.BUNDLE_SPEC_MEDIA_TYPE),
        layers=[blobs.keep(goldens, oci.GOLDENS_MEDIA_TYPE)],
    )  # fmt: skip
    manifests = [_keep_manifest(blobs, about, None)]
    manifests += [_variant(blobs, variant, files) for variant, files in variants]
    index = oci.Index(
        schema_version=2, media_type=oci.INDEX_MEDIA_TYPE, manifests=manifests, artifact_type=oci.BUNDLE_ARTIFACT_TYPE
    )
    return Assembled(oci.canonical_json(index), blobs.held)


def _variant(blobs: _Blobs, variant: VariantSpec, files: dict[str, Path]) -> oci.Descriptor:
    weights = [
        blobs.keep_file(path, oci.MODEL_WEIGHT_MEDIA_TYPE, annotations={oci.FILE_PATH_ANNOTATION: name})
        for name, path in sorted(files.items())
    ]
    spec = blobs.keep(oci.canonical_json(variant), oci.VARIANT_SPEC_MEDIA_TYPE)
    config = blobs.keep(oci.canonical_json(model_config(variant, weights)), oci.MODEL_CONFIG_MEDIA_TYPE)
    manifest = oci.Manifest(
        schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE, artifact_type=oci.MODEL_ARTIFACT_TYPE,
        config=config, layers=[spec, *weights],
    )  # fmt: skip
    return _keep_manifest(blobs, manifest, variant)


def model_config(variant: VariantSpec, weights: Sequence[oci.Descriptor]) -> dict[str, Any]:
    """The CNCF ModelPack config of a variant (https://github.com/modelpack/model-spec, config.md)."""
    config: dict[str, Any] = {
        "format": FORMATS.get(variant.runtime, variant.runtime),
        "precision": PRECISIONS.get(variant.precision, variant.precision),
    }
    if variant.precision == "int8":
        config["quantization"] = "int8"
    return {
        "descriptor": {"name": variant.name},
        "modelfs": {"type": "layers", "diffIds": [weight.digest for weight in weights]},
        "config": config,
    }


def _keep_manifest(blobs: _Blobs, manifest: oci.Manifest, variant: VariantSpec | None) -> oci.Descriptor:
    told = None
    if variant is not None:
        told = {f"dev.mindedge.{key}": getattr(variant, key) for key in ("name", "runtime", "target", "precision")}
    return blobs.keep(
        oci.canonical_json(manifest), oci.MANIFEST_MEDIA_TYPE, artifact_type=manifest.artifact_type, annotations=told
    )
