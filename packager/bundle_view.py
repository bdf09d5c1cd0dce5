"""A bundle in words and as JSON: what `mindpack inspect` shows and `mindpack build --json` prints."""

from __future__ import annotations

from typing import Any

import msgspec

from edge_contracts.bundle import Bundle, Variant


def document(bundle: Bundle) -> dict[str, Any]:
    """One JSON document; lineage, gate and variants as the bundle has them, defaults filled in."""
    spec = bundle.spec
    return {
        "name": spec.name,
        "version": spec.version,
        "digest": bundle.digest,
        "format_version": spec.format_version,
        "signed": False,
        "signature": msgspec.to_builtins(spec.signature),
        "goldens": spec.golden_count,
        "labels": spec.labels,
        "gate": {"max_drop": spec.gate.max_drop},
        "lineage": msgspec.to_builtins(spec.lineage),
        "variants": [_variant(variant) for variant in bundle.variants],
        "left_out": [{"name": item.name, "reason": item.reason} for item in spec.left_out],
    }


def lines(bundle: Bundle) -> list[str]:
    """For people."""
    spec = bundle.spec
    told = [
        f"{spec.name} {spec.version}  {bundle.digest}",
        f"  takes    {', '.join(_tensor(item) for item in spec.signature.inputs)}",
        f"  answers  {', '.join(_tensor(item) for item in spec.signature.outputs)}",
        f"  goldens  {spec.golden_count}, largest accepted drop {spec.gate.max_drop:g}",
        f"  source   {spec.lineage.source_format} {spec.lineage.source_digest}",
    ]
    width = max(len(variant.name) for variant in bundle.variants)
    told += [f"  variant  {variant.name:<{width}}  {_facts(variant)}" for variant in bundle.variants]
    told += [f"  left out {item.name}: {item.reason}" for item in spec.left_out]
    return told


def _variant(variant: Variant) -> dict[str, Any]:
    spec = variant.spec
    accuracy = None
    if spec.accuracy is not None:
        accuracy = {field: getattr(spec.accuracy, field) for field in spec.accuracy.__struct_fields__}
    told = {field: msgspec.to_builtins(getattr(spec, field)) for field in spec.__struct_fields__}
    return {
        **told,
        "accuracy": accuracy,
        "digest": variant.digest,
        "files": [{"path": file.path, "digest": file.digest, "size": file.size} for file in variant.files],
    }


def _tensor(spec: Any) -> str:
    return f"{spec.name} {spec.dtype} [{', '.join(str(dim) for dim in spec.shape)}]"


def _facts(variant: Variant) -> str:
    spec = variant.spec
    told = [f"{spec.size_bytes / 1000:.0f} kB"]
    if spec.accuracy is not None:
        told.append(f"{spec.accuracy.metric} {spec.accuracy.value:.4f} (drop {spec.accuracy.drop:+.4f})")
        if spec.accuracy.max_abs_error is not None:
            told.append(f"max error {spec.accuracy.max_abs_error:.2g}")
    if spec.runtime_versions.minimum:
        told.append(f"{spec.runtime} >= {spec.runtime_versions.minimum}")
    if spec.frozen_dimensions:
        told.append(", ".join(f"{dim} fixed to {size}" for dim, size in sorted(spec.frozen_dimensions.items())))
    return ", ".join([*told, *spec.notes])
