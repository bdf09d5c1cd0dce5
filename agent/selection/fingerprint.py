"""What a choice depends on, as one hash: a choice is used again only while all of it is the same. Pure."""

from __future__ import annotations

import hashlib

import msgspec

from agent.selection.request import SelectionRequest
from edge_contracts.capabilities import Capabilities, topology_key

CHOICE_RULES = 1
"""Raised when selection itself changes so that old choices should be made anew."""


def fingerprint(request: SelectionRequest) -> str:
    """64 hex digits over variants, goldens, shapes, runtimes, drivers, CPU, budget, affinity, objective and gate."""
    bundle, device = request.folder.bundle, request.device
    facts = {
        "rules": CHOICE_RULES,
        "variants": sorted(variant.digest for variant in request.folder.variants_present()),
        "goldens": bundle.goldens.digest,
        "signature": msgspec.to_builtins(bundle.spec.signature),
        "labels": bundle.spec.golden_labels,
        "device": device_fingerprint(device),
        "runtimes": sorted([fact.name, fact.version, fact.status, fact.providers] for fact in device.runtimes),
        "budget_cpus": round(request.budget_cpus, 2),
        "affinity": sorted(request.affinity) if request.affinity is not None else None,
        "objective": request.objective,
        "max_drop": request.max_drop,
    }
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()


def device_fingerprint(device: Capabilities) -> str:
    """The silicon, its drivers and its power mode: what makes a crash or a time on one device tell of the next."""
    facts = {
        "cpu": topology_key(device),
        "kernel_arch": device.os.kernel_arch,
        "userland_bits": device.os.userland_bits,
        "firmware": device.os.firmware,
        "power_mode": device.power_mode,
        "accelerators": sorted(
            [a.kind.value, a.name or "", a.driver or "", a.bus_id or "", a.status.value] for a in device.accelerators
        ),
    }
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:16]
