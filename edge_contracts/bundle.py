"""The bundle: what it says of itself and of each variant and how both are read from an OCI index.

index.json ──► image index (its digest is the bundle's digest)
                 ├─► bundle manifest:  config = BundleSpec, layer = goldens
                 └─► variant manifest: config = ModelPack config, layers = VariantSpec, weight files
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from edge_contracts import names, oci
from edge_contracts.errors import DigestMismatch, MalformedBundle, MalformedMessage, UnknownFormat
from edge_contracts.tensor_signature import Signature, TensorBinding

FORMAT_VERSION = 1
MAX_JSON_BYTES = 4 * 1024 * 1024
RUNTIMES = ("onnxruntime", "openvino", "tflite")
TARGETS = ("cpu", "gpu", "vpu")


class AccuracyGate(msgspec.Struct, frozen=True, kw_only=True):
    """``max_drop``: largest accepted loss, as a fraction: of the task metric with labels, else of agreement/cosine."""

    max_drop: float = 0.01


class Accuracy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A variant against the source model, on ``samples`` samples.

    metric: "top1" (labels given: fraction right) or "agreement" (fraction of samples answered as the source answers).
    value, source_value: that metric of the variant and of the source model.
    drop: source_value - value (may be negative). cosine: mean over samples, worst output. max_abs_error: worst output.
    relative_error: root mean square of the difference over that of the source's values, all samples, worst output.
    """

    metric: str
    value: float
    source_value: float
    drop: float
    cosine: float | None = None
    max_abs_error: float | None = None
    samples: int = 0
    relative_error: float | None = None


class VersionRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runtime versions a variant runs on: ``minimum`` inclusive, ``below`` exclusive; dotted numbers; None is open."""

    minimum: str | None = None
    below: str | None = None


class VariantSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one variant is and needs. ``entry`` is the file the runtime opens; other files lie beside it."""

    name: str
    runtime: str
    target: str
    precision: str
    entry: str
    inputs: list[TensorBinding]
    outputs: list[TensorBinding]
    runtime_versions: VersionRange = VersionRange()
    os: str | None = None
    architectures: list[str] = []
    cpu_features: list[str] = []
    opset: int | None = None
    ir_version: int | None = None
    operators: list[str] = []
    size_bytes: int = 0
    peak_memory_bytes: int | None = None
    layout: str | None = None
    frozen_dimensions: dict[str, int] = {}
    accuracy: Accuracy | None = None
    notes: list[str] = []


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that was asked for and is not in the bundle, with the reason."""

    name: str
    reason: str


class LatencyObjective(msgspec.Struct, frozen=True, kw_only=True):
    """Latency SLO in milliseconds at the 95th percentile."""

    p95_ms: float


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the bundle comes from. No path, clock or machine: the same inputs give the same bytes."""

    source_digest: str
    source_format: str
    tools: dict[str, str] = {}
    calibration_digest: str | None = None
    options: dict[str, str] = {}
    author: str | None = None
    created: str | None = None


class BundleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the bundle says of itself. ``labels``: class names, if any. ``golden_labels``: the right class by golden."""

    name: str
    version: str
    signature: Signature
    golden_count: int
    gate: AccuracyGate
    lineage: Lineage
    format_version: int = FORMAT_VERSION
    golden_labels: list[int] | None = None
    latency_objective: LatencyObjective | None = None
    labels: list[str] = []
    notes: dict[str, str] = {}
    left_out: list[LeftOut] = []


@dataclass(frozen=True)
class BundleFile:
    """A weight file of a variant: relative path without directories, and its blob."""

    path: str
    digest: str
    size: int


@dataclass(frozen=True)
class Variant:
    """A variant with the blobs it is made of. ``digest`` is its manifest's and identifies it everywhere."""

    digest: str
    spec: VariantSpec
    files: list[BundleFile]

    @property
    def name(self) -> str:
        """Name within the bundle, for example ``onnxruntime-fp32-cpu``."""
        return self.spec.name


@dataclass(frozen=True)
class Bundle:
    """A parsed bundle. Parsed is not trusted: the device acts only on a VerifiedBundle (agent.update.verification)."""

    digest: str
    spec: BundleSpec
    variants: list[Variant]
    goldens: oci.Descriptor
    metadata_blobs: list[oci.Descriptor]

    def variant(self, name: str) -> Variant | None:
        """The variant of that name, or None."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def blobs(self) -> dict[str, int]:
        """Every blob below the index with its size in bytes, the index itself excluded."""
        sizes = {blob.digest: blob.size for blob in [*self.metadata_blobs, self.goldens]}
        sizes.update({file.digest: file.size for variant in self.variants for file in variant.files})
        return sizes


def parse_bundle(index_bytes: bytes, read_blob: Callable[[str], bytes]) -> Bundle:
    """Parse the index and the JSON it points to; weights and goldens are not read.

    ``read_blob(digest)`` returns a small blob's bytes; what it returns is checked against digest and size here.
    Raises MalformedBundle (UnknownFormat, DigestMismatch), and whatever ``read_blob`` raises.
    """
    index = _decode(index_bytes, oci.Index, "bundle index")
    metadata: list[oci.Descriptor] = []

    def fetch(descriptor: oci.Descriptor, where: str) -> bytes:
        if descriptor.size > MAX_JSON_BYTES:
            raise MalformedBundle(where, f"{descriptor.size} bytes of JSON; at most {MAX_JSON_BYTES} are read")
        data = check_blob(read_blob(_digest(descriptor, where)), descriptor, where)
        metadata.append(descriptor)
        return data

    spec: BundleSpec | None = None
    goldens: oci.Descriptor | None = None
    variants: list[Variant] = []
    for position, descriptor in enumerate(index.manifests):
        where = f"manifest {position}"
        manifest = _decode(fetch(descriptor, where), oci.Manifest, where)
        if manifest.artifact_type == oci.BUNDLE_ARTIFACT_TYPE:
            spec, goldens = _parse_bundle_manifest(manifest, fetch)
        elif manifest.artifact_type == oci.MODEL_ARTIFACT_TYPE:
            variants.append(_parse_variant(descriptor.digest, manifest, fetch, where))
    if spec is None or goldens is None:
        raise MalformedBundle("bundle index", "has no bundle manifest: this OCI index is not a MindEdge bundle")
    if not variants:
        raise MalformedBundle(spec.name, "has no variants")
    _refuse_repeats([variant.name for variant in variants], "variant name")
    return Bundle(oci.sha256_digest(index_bytes), spec, variants, goldens, metadata)


def check_blob(data: bytes, descriptor: oci.Descriptor, where: str) -> bytes:
    """Return ``data`` if it has the descriptor's size and digest. Raises DigestMismatch naming ``where``."""
    if len(data) != descriptor.size:
        raise DigestMismatch(where, f"{len(data)} bytes, {descriptor.size} expected")
    actual = oci.sha256_digest(data)
    if actual != descriptor.digest:
        raise DigestMismatch(where, f"bytes changed: digest is {actual}, {descriptor.digest} expected")
    return data


Fetch = Callable[[oci.Descriptor, str], bytes]
T = TypeVar("T")


def _parse_bundle_manifest(manifest: oci.Manifest, fetch: Fetch) -> tuple[BundleSpec, oci.Descriptor]:
    raw = fetch(manifest.config, "bundle spec")
    version = _decode(raw, _FormatProbe, "bundle spec").format_version
    if version > FORMAT_VERSION:
        raise UnknownFormat("bundle spec", f"format version {version}; this code reads up to {FORMAT_VERSION}: "
                            f"update MindEdge to one that reads format {version}")  # fmt: skip
    spec = _decode(raw, BundleSpec, "bundle spec")
    try:
        names.bundle_name(spec.name)
        names.semantic_version(spec.version)
    except MalformedMessage as error:
        raise MalformedBundle("bundle spec", str(error)) from error
    goldens = [layer for layer in manifest.layers if layer.media_type == oci.GOLDENS_MEDIA_TYPE]
    if len(goldens) != 1:
        raise MalformedBundle(spec.name, f"has {len(goldens)} golden blobs, one expected")
    _digest(goldens[0], "goldens")
    return spec, goldens[0]


def _parse_variant(digest: str, manifest: oci.Manifest, fetch: Fetch, where: str) -> Variant:
    fetch(manifest.config, f"{where} config")
    specs = [layer for layer in manifest.layers if layer.media_type == oci.VARIANT_SPEC_MEDIA_TYPE]
    if len(specs) != 1:
        raise MalformedBundle(where, "has no variant spec")
    spec = _decode(fetch(specs[0], f"{where} spec"), VariantSpec, f"{where} spec")
    try:
        names.variant_name(spec.name)
    except MalformedMessage as error:
        raise MalformedBundle(where, str(error)) from error
    files = [
        _parse_file(layer, spec.name) for layer in manifest.layers if layer.media_type == oci.MODEL_WEIGHT_MEDIA_TYPE
    ]
    _refuse_repeats([file.path for file in files], f"variant {spec.name}: file")
    if spec.entry not in [file.path for file in files]:
        raise MalformedBundle(f"variant {spec.name}", f"entry {spec.entry!r} is not among its files")
    return Variant(digest, spec, files)


def _parse_file(layer: oci.Descriptor, variant: str) -> BundleFile:
    path = (layer.annotations or {}).get(oci.FILE_PATH_ANNOTATION, "")
    if not path or path in (".", "..") or any(c in path for c in "/\\\0") or len(path) > 200:
        raise MalformedBundle(f"variant {variant}", f"file name {path[:80]!r} is not a plain file name")
    return BundleFile(path, _digest(layer, f"variant {variant}: {path}"), layer.size)


def _digest(descriptor: oci.Descriptor, where: str) -> str:
    try:
        names.digest(descriptor.digest)
    except MalformedMessage as error:
        raise MalformedBundle(where, str(error)) from error
    if descriptor.size < 0:
        raise MalformedBundle(where, f"negative size {descriptor.size}")
    return descriptor.digest


def _refuse_repeats(values: list[str], what: str) -> None:
    repeated = sorted(value for value, count in Counter(values).items() if count > 1)
    if repeated:
        raise MalformedBundle("bundle", f"{what} {repeated[0]!r} appears twice")


class _FormatProbe(msgspec.Struct):
    format_version: int = FORMAT_VERSION


def _decode(data: bytes, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBundle(where, f"not readable: {error}") from error
