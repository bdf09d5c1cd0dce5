"""Which board this is: from the device tree, else from DMI. Never from cpuinfo's `Hardware` line, which is wrong."""

from __future__ import annotations

import re

from agent.hardware.probers import cpu_counts, cpuinfo, device_tree, raspberry_pi, soc
from agent.hardware.probers.lscpu import read as read_lscpu
from agent.hardware.sysfs import Machine
from edge_contracts.capabilities import BoardFacts

DMI_DIR = "sys/class/dmi/id"
FILLERS = re.compile(
    r"to be filled by o\.?e\.?m\.?|default string|system (product name|manufacturer|version)|not (applicable|specified)"
    r"|o\.?e\.?m\.?|unknown|none|n/?a|undefined|invalid|\W*|x\.x|\d\.\d+|empty|product name",
    re.IGNORECASE,
)
"""What makers leave in DMI fields that they did not fill."""

VENDOR_WORDS = re.compile(
    r"\((r|tm)\)|,?\s+(inc\.?|corp\.?|corporation|co\.?,?\s*ltd\.?|ltd\.?|llc\.?|gmbh|limited|computer|client systems|"
    r"technology|electronics|international|industrial)(?=[\s,.]|$)[.,]?",
    re.IGNORECASE,
)


class BoardProber:
    """BoardFacts without `profile`, which the match adds."""

    name = "board"

    def probe(self, machine: Machine) -> BoardFacts:
        compatible = device_tree.compatible(machine)
        model = settled(device_tree.model(machine) or cpuinfo.read(machine).shared.get("model"))
        if model is None and not compatible:
            return _from_dmi(machine)
        return BoardFacts(
            model=model,
            soc=_soc_name(machine, compatible),
            vendor=compatible[0].partition(",")[0] if compatible else None,
            compatible=compatible,
        )


def settled(model: str | None) -> str | None:
    """The first firmware of the Zero 2 W left the W out; there is no Zero 2 without one. Pure."""
    return model.replace("Raspberry Pi Zero 2 Rev", "Raspberry Pi Zero 2 W Rev") if model is not None else None


def _soc_name(machine: Machine, compatible: list[str]) -> str | None:
    """A Raspberry Pi's revision code is more exact than its device tree (BCM2837 against BCM2710A1)."""
    revision = raspberry_pi.revision(machine)
    if revision is not None and revision.soc is not None:
        return revision.soc
    found = soc.find(compatible)
    return found.name if found is not None else None


def _from_dmi(machine: Machine) -> BoardFacts:
    info = cpuinfo.read(machine)
    listed = read_lscpu(machine)
    fields = {field: machine.text(f"{DMI_DIR}/{field}") for field in DMI_FIELDS}
    return BoardFacts(
        model=dmi_model(fields),
        soc=cpu_counts.model_name(info.first("model name") or cpu_counts.x86_model_of(listed)),
        vendor=plain_vendor(fields["sys_vendor"]) or plain_vendor(fields["board_vendor"]),
    )


DMI_FIELDS = ("sys_vendor", "product_name", "product_version", "board_vendor", "board_name")


def dmi_model(fields: dict[str, str | None]) -> str | None:
    """ "GEEKOM GT1 Mega": maker and product, from the system's fields, else the main board's. Pure.

    Lenovo puts a type number in product_name and the name that people know in product_version.
    """
    vendor = plain_vendor(fields.get("sys_vendor")) or plain_vendor(fields.get("board_vendor"))
    product = filled(fields.get("product_name"))
    if vendor is not None and vendor.upper() == "LENOVO":
        product = filled(fields.get("product_version")) or product
    product = product or filled(fields.get("board_name"))
    if product is None:
        return None
    return product if vendor is None or product.lower().startswith(vendor.lower()) else f"{vendor} {product}"


def filled(text: str | None) -> str | None:
    """The text in single blanks; None for what a maker left as a filler."""
    if text is None or FILLERS.fullmatch(text.strip()):
        return None
    return " ".join(text.split())


def plain_vendor(text: str | None) -> str | None:
    """ "Intel" for "Intel(R) Client Systems", "Dell" for "Dell Inc."."""
    known = filled(text)
    if known is None:
        return None
    short = " ".join(VENDOR_WORDS.sub(" ", known).split()).strip(" .,")
    return short or known
