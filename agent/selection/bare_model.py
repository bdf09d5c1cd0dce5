"""A bare ONNX or TFLite file as a laid-out bundle, so that it is raced like one: the same file once per runtime."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.errors import BackendError
from agent.inference.bundle_folder import BundleFolder, open_bundle_folder
from agent.inference.process_end import signal_text
from agent.selection.bare_source_form import BareSource, bound
from agent.selection.candidates import BARE_NOTE
from edge_contracts import oci
from edge_contracts.bundle import AccuracyGate, BundleSpec, Lineage, VariantSpec

RUNTIMES_OF_SUFFIX = {".onnx": ("onnxruntime", "openvino"), ".tflite": ("tflite", "openvino")}
READ_TIMEOUT_S = 300.0


def lay_out_bare_model(
    file: Path, folder: Path, fixed_shapes: Mapping[str, Sequence[int]], timeout_s: float = READ_TIMEOUT_S
) -> BundleFolder:
    """Make ``folder`` (must not exist) for ``file``; its weights stay where they are. Raises BackendError, OSError."""
    file = file.resolve(strict=True)
    refuse_what_is_no_model(file)
    runtimes = RUNTIMES_OF_SUFFIX[file.suffix.lower()]
    (folder / "metadata").mkdir(parents=True)
    (folder / "variants").mkdir()
    source = _read(file, runtimes[0], folder, fixed_shapes, timeout_s)
    digest = _sha256(file)
    blobs: dict[str, bytes] = {}
    manifests = [_about(file, source, digest, (folder / "goldens.bin").read_bytes(), blobs)]
    for runtime in runtimes:
        spec = _variant(file, runtime, source)
        (folder / "variants" / spec.name).symlink_to(file.parent)
        manifests.append(_manifest(spec, digest, blobs))
    index = oci.canonical_json(oci.Index(schema_version=2, media_type=oci.INDEX_MEDIA_TYPE, manifests=manifests))
    (folder / "index.json").write_bytes(index)
    for name, content in blobs.items():
        (folder / "metadata" / name.removeprefix("sha256:")).write_bytes(content)
    return open_bundle_folder(folder)


def refuse_what_is_no_model(file: Path) -> None:
    """Raises BackendError naming what the file is instead: a web page, a Git LFS pointer, empty, another format."""
    if file.suffix.lower() not in RUNTIMES_OF_SUFFIX:
        raise BackendError("bench", f"{file.name}: a .mindie bundle, .onnx or .tflite file is expected")
    with file.open("rb") as opened:
        head = opened.read(256)
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise BackendError("bench", f"{file.name} is a web page, not a model: download the file itself")
    if text.startswith(b"version https://git-lfs"):
        raise BackendError("bench", f"{file.name} is a Git LFS pointer, not a model: run `git lfs pull`")
    if not head:
        raise BackendError("bench", f"{file.name} is empty")
    if file.suffix.lower() == ".tflite" and head[4:8] != b"TFL3":
        raise BackendError("bench", f"{file.name} is not a TFLite file (no TFL3 mark)")


def _read(
    file: Path, runtime: str, folder: Path, fixed_shapes: Mapping[str, Sequence[int]], timeout_s: float
) -> BareSource:
    shapes = [f"{name}={','.join(str(size) for size in sizes)}" for name, sizes in fixed_shapes.items()]
    argv = [sys.executable, "-m", "agent.selection.bare_source", str(file), runtime, str(folder), *shapes]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise BackendError(runtime, f"{file.name}: reading and running it took over {timeout_s:g} s") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        told = lines[-1] if done.returncode > 0 and lines else f"{runtime}: {signal_text(done.returncode)}"
        raise BackendError("bench", f"{file.name}: {told[:400]}")
    return msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=BareSource)


def _variant(file: Path, runtime: str, source: BareSource) -> VariantSpec:
    return VariantSpec(
        name=f"{runtime}-{source.precision}-cpu", runtime=runtime, target="cpu", precision=source.precision,
        entry=file.name, size_bytes=file.stat().st_size, notes=[BARE_NOTE],
        inputs=[bound(spec) for spec in source.signature.inputs],
        outputs=[bound(spec) for spec in source.signature.outputs],
    )  # fmt: skip


def _about(file: Path, source: BareSource, digest: str, goldens: bytes, blobs: dict[str, bytes]) -> oci.Descriptor:
    spec = BundleSpec(
        name="bare-model", version="0.0.0", signature=source.signature, golden_count=8, gate=AccuracyGate(),
        lineage=Lineage(source_digest=digest, source_format=file.suffix.lower().lstrip(".")),
    )  # fmt: skip
    manifest = oci.Manifest(
        schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE, artifact_type=oci.BUNDLE_ARTIFACT_TYPE,
        config=_keep(blobs, spec, oci.BUNDLE_SPEC_MEDIA_TYPE),
        layers=[oci.describe(goldens, oci.GOLDENS_MEDIA_TYPE)],
    )  # fmt: skip
    return _keep(blobs, manifest, oci.MANIFEST_MEDIA_TYPE)


def _manifest(spec: VariantSpec, digest: str, blobs: dict[str, bytes]) -> oci.Descriptor:
    weights = oci.Descriptor(
        media_type=oci.MODEL_WEIGHT_MEDIA_TYPE, digest=digest, size=spec.size_bytes,
        annotations={oci.FILE_PATH_ANNOTATION: spec.entry},
    )  # fmt: skip
    manifest = oci.Manifest(
        schema_version=2, media_type=oci.MANIFEST_MEDIA_TYPE, artifact_type=oci.MODEL_ARTIFACT_TYPE,
        config=_keep(blobs, {"descriptor": {"name": spec.name}}, oci.MODEL_CONFIG_MEDIA_TYPE),
        layers=[_keep(blobs, spec, oci.VARIANT_SPEC_MEDIA_TYPE), weights],
    )  # fmt: skip
    return _keep(blobs, manifest, oci.MANIFEST_MEDIA_TYPE)


def _keep(blobs: dict[str, bytes], value: Any, media_type: str) -> oci.Descriptor:
    data = oci.canonical_json(value)
    descriptor = oci.describe(data, media_type)
    blobs[descriptor.digest] = data
    return descriptor


def _sha256(file: Path) -> str:
    sha = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(1 << 20):
            sha.update(chunk)
    return "sha256:" + sha.hexdigest()
