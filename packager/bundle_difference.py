"""What changed between two bundles, and what of the second a holder of the first need not fetch: pure."""

from __future__ import annotations

from typing import Any

import msgspec

from edge_contracts.bundle import Bundle, Variant


def difference(old: Bundle, new: Bundle) -> dict[str, Any]:
    """One JSON document. ``transfer_bytes``: blobs of ``new`` that ``old`` does not hold, whole."""
    before, after = old.blobs(), new.blobs()
    missing = {digest: size for digest, size in after.items() if digest not in before}
    return {
        "old": _identity(old),
        "new": _identity(new),
        "same": old.digest == new.digest,
        "signature_changed": old.spec.signature != new.spec.signature,
        "goldens_changed": old.goldens.digest != new.goldens.digest,
        "variants": [item for name in _names(old, new) if (item := _variant(name, old, new))],
        "blobs": {"shared": len(after) - len(missing), "new": len(missing)},
        "total_bytes": sum(after.values()),
        "transfer_bytes": sum(missing.values()),
    }


def lines(told: dict[str, Any]) -> list[str]:
    """For people."""
    if told["same"]:
        return [f"the same bundle: {told['new']['digest']}"]
    shown = [f"{told['old']['name']} {told['old']['version']} -> {told['new']['name']} {told['new']['version']}"]
    shown += [f"  {what} changed" for what in ("signature", "goldens") if told[f"{what}_changed"]]
    shown += [f"  {item['change']:<8} {item['name']}{_numbers(item)}" for item in told["variants"]]
    shown.append(
        f"  to fetch {told['transfer_bytes']} of {told['total_bytes']} bytes "
        f"({told['blobs']['shared']} blobs are there already, {told['blobs']['new']} are new)"
    )
    return shown


def _identity(bundle: Bundle) -> dict[str, str]:
    return {"name": bundle.spec.name, "version": bundle.spec.version, "digest": bundle.digest}


def _names(old: Bundle, new: Bundle) -> list[str]:
    return list(dict.fromkeys([*(v.name for v in old.variants), *(v.name for v in new.variants)]))


def _variant(name: str, old: Bundle, new: Bundle) -> dict[str, Any] | None:
    before, after = old.variant(name), new.variant(name)
    if before is not None and after is not None:
        change = "same" if before.digest == after.digest else _what_changed(before, after)
    else:
        change = "added" if before is None else "removed"
    return {
        "name": name,
        "change": change,
        "old": None if before is None else _facts(before),
        "new": None if after is None else _facts(after),
    }


def _what_changed(before: Variant, after: Variant) -> str:
    same_files = [file.digest for file in before.files] == [file.digest for file in after.files]
    return "retold" if same_files else "changed"


def _facts(variant: Variant) -> dict[str, Any]:
    accuracy = variant.spec.accuracy
    return {
        "size_bytes": variant.spec.size_bytes,
        "digest": variant.digest,
        "accuracy": None if accuracy is None else msgspec.to_builtins(accuracy),
    }


def _numbers(item: dict[str, Any]) -> str:
    facts = [side for side in (item["old"], item["new"]) if side is not None]
    sizes = " -> ".join(dict.fromkeys(f"{side['size_bytes'] / 1000:.0f} kB" for side in facts))
    values = " -> ".join(dict.fromkeys(f"{side['accuracy']['value']:.4f}" for side in facts if side["accuracy"]))
    return f"  {sizes}" + (f", {facts[-1]['accuracy']['metric']} {values}" if values and facts[-1]["accuracy"] else "")
