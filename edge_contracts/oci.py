"""The OCI image-spec types that a bundle is made of, as pure data.

Source: https://github.com/opencontainers/image-spec (manifest.md, image-index.md, image-layout.md) and the CNCF
ModelPack specification for the media types of models.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

LAYOUT_FILE = b'{"imageLayoutVersion":"1.0.0"}'
INDEX_MEDIA_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
MODEL_ARTIFACT_TYPE = "application/vnd.cncf.model.manifest.v1+json"
MODEL_CONFIG_MEDIA_TYPE = "application/vnd.cncf.model.config.v1+json"
MODEL_WEIGHT_MEDIA_TYPE = "application/vnd.cncf.model.weight.v1.raw"
FILE_PATH_ANNOTATION = "org.cncf.model.filepath"
BUNDLE_ARTIFACT_TYPE = "application/vnd.dev.mindedge.bundle.v1+json"
BUNDLE_SPEC_MEDIA_TYPE = "application/vnd.dev.mindedge.bundle.spec.v1+json"
VARIANT_SPEC_MEDIA_TYPE = "application/vnd.dev.mindedge.variant.spec.v1+json"
GOLDENS_MEDIA_TYPE = "application/vnd.dev.mindedge.goldens.v1"


class Platform(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a manifest runs; Go's names ("linux", "arm64", "amd64")."""

    os: str
    architecture: str
    variant: str | None = None


class Descriptor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A pointer to a blob by digest and size (bytes)."""

    media_type: str
    digest: str
    size: int
    artifact_type: str | None = None
    platform: Platform | None = None
    annotations: dict[str, str] | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An OCI image manifest."""

    schema_version: int
    media_type: str
    config: Descriptor
    layers: list[Descriptor]
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None


class Index(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An OCI image index."""

    schema_version: int
    media_type: str
    manifests: list[Descriptor]
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None


def sha256_digest(data: bytes | memoryview) -> str:
    """``sha256:<hex>`` of the bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """One byte form per value: keys sorted, no spaces, UTF-8. Structs are encoded by their own field rules."""
    return msgspec.json.encode(msgspec.to_builtins(value, str_keys=True), order="sorted")


def describe(data: bytes, media_type: str, **more: Any) -> Descriptor:
    """The descriptor of ``data``; ``more`` are further Descriptor fields."""
    return Descriptor(media_type=media_type, digest=sha256_digest(data), size=len(data), **more)
