from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers import raspberry_pi
from agent.hardware.probers.board import dmi_model, plain_vendor
from edge_contracts.capabilities import BoardFacts
from tests.agent.hardware.recording import record

TREE = "sys/firmware/devicetree/base"


def board_of(root: Path, files: Mapping[str, str | bytes]) -> BoardFacts:
    return probe(record(root, files)).board


def tree(model: str, *compatible: str) -> dict[str, bytes]:
    return {
        f"{TREE}/model": model.encode() + b"\0",
        f"{TREE}/compatible": "".join(c + "\0" for c in compatible).encode(),
    }


@pytest.mark.parametrize(
    ("model", "compatible", "soc", "profile"),
    [
        ("Raspberry Pi 5 Model B Rev 1.0", ("raspberrypi,5-model-b", "brcm,bcm2712"), "BCM2712", "raspberry-pi-5"),
        ("Raspberry Pi 400 Rev 1.0", ("raspberrypi,400", "brcm,bcm2711"), "BCM2711", "raspberry-pi-4b"),
        (
            "Raspberry Pi 3 Model B Plus Rev 1.3",
            ("raspberrypi,3-model-b-plus", "brcm,bcm2837"),
            "BCM2837",
            "raspberry-pi-3b-plus",
        ),
        (
            "Raspberry Pi Compute Module 4 Rev 1.1",
            ("raspberrypi,4-compute-module", "brcm,bcm2711"),
            "BCM2711",
            "raspberry-pi-cm4",
        ),
        (
            "NVIDIA Jetson Xavier NX Developer Kit",
            ("nvidia,p3509-0000+p3668-0000", "nvidia,tegra194"),
            "Xavier (tegra194)",
            "jetson-xavier-nx",
        ),
        ("NVIDIA Jetson AGX Xavier", ("nvidia,galen", "nvidia,tegra194"), "Xavier (tegra194)", "jetson-agx-xavier"),
        (
            "NVIDIA Jetson Orin Nano Developer Kit",
            ("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"),
            "Orin (tegra234)",
            "jetson-orin-nano",
        ),
        (
            "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
            ("nvidia,p3768-0000+p3767-0005-super", "nvidia,tegra234"),
            "Orin (tegra234)",
            "jetson-orin-nano",
        ),
        (
            "NVIDIA Jetson AGX Orin Developer Kit",
            ("nvidia,p3737-0000+p3701-0005", "nvidia,tegra234"),
            "Orin (tegra234)",
            "jetson-agx-orin",
        ),
        ("quill", ("nvidia,p2597-0000+p3310-1000", "nvidia,tegra186"), "Tegra X2 (tegra186)", "jetson-tx2"),
        ("Orange Pi 5", ("xunlong,orangepi-5", "rockchip,rk3588s", "rockchip,rk3588"), "RK3588S", "rk3588"),
        (
            "Hardkernel ODROID-N2Plus",
            ("hardkernel,odroid-n2-plus", "amlogic,s922x", "amlogic,g12b"),
            "S922X",
            "odroid-n2-plus",
        ),
        (
            "Hardkernel Odroid XU4",
            ("hardkernel,odroid-xu4", "samsung,exynos5800", "samsung,exynos5"),
            "Exynos 5422",
            "odroid-xu4",
        ),
        ("Freescale i.MX8MQ Phanbell", ("fsl,imx8mq-phanbell", "fsl,imx8mq"), "i.MX 8M", "coral-dev-board"),
        ("Some new board", ("maker,board", "maker,soc9000"), "SOC9000", None),
    ],
)
def test_a_board_by_its_device_tree(
    tmp_path: Path, model: str, compatible: tuple[str, ...], soc: str, profile: str | None
) -> None:
    found = board_of(tmp_path, tree(model, *compatible))
    assert (found.model, found.soc, found.profile) == (model, soc, profile)


def test_an_unknown_arm_board_gets_the_general_profile(tmp_path: Path) -> None:
    found = board_of(tmp_path, {**tree("Some new board", "maker,board"), "proc/sys/kernel/arch": "aarch64"})
    assert (found.model, found.profile, found.soc) == ("Some new board", "generic-aarch64", None)


def test_the_hardware_line_of_cpuinfo_names_no_board(tmp_path: Path) -> None:
    found = board_of(tmp_path, {"proc/cpuinfo": "processor\t: 0\nFeatures\t: half\n\nHardware\t: BCM2835\n"})
    assert (found.model, found.soc) == (None, None)


@pytest.mark.parametrize(
    ("vendor", "product", "board", "model"),
    [
        ("Intel(R) Client Systems", "NUC11TNKi5", "NUC11TNBi5", "Intel NUC11TNKi5"),
        ("GEEKOM ", "GT1 Mega ", "GT1 Mega", "GEEKOM GT1 Mega"),
        ("Dell Inc.", "OptiPlex 3090", "0K4V5T", "Dell OptiPlex 3090"),
        ("ASUSTeK COMPUTER INC.", "NUC14RVH", "NUC14RVB", "ASUSTeK NUC14RVH"),
        ("To Be Filled By O.E.M.", "To Be Filled By O.E.M.", "N100DC-ITX", "N100DC-ITX"),
        ("Default string", "Default string", "Default string", None),
        ("HP", "HP ProDesk 400 G6", "8710", "HP ProDesk 400 G6"),
    ],
)
def test_a_board_by_dmi(vendor: str, product: str, board: str, model: str | None) -> None:
    assert dmi_model({"sys_vendor": vendor, "product_name": product, "board_name": board}) == model


def test_lenovos_name_is_in_the_version_field() -> None:
    fields = {"sys_vendor": "LENOVO", "product_name": "11T3000KGE", "product_version": "ThinkCentre M70q Gen 3"}
    assert dmi_model(fields) == "LENOVO ThinkCentre M70q Gen 3"


def test_a_makers_legal_form_is_no_part_of_its_name() -> None:
    assert plain_vendor("Micro-Star International Co., Ltd.") == "Micro-Star"
    assert plain_vendor("Intel Corporation") == "Intel"


@pytest.mark.parametrize(
    ("code", "soc", "memory_mb"),
    [
        (0xD03114, "BCM2711", 8192),
        (0x902120, "BCM2710A1 (RP3A0)", 512),
        (0xA02082, "BCM2837", 1024),
        (0xD04170, "BCM2712", 8192),
        (0xA020D3, "BCM2837B0", 1024),
    ],
)
def test_a_raspberry_pis_revision_code(code: int, soc: str, memory_mb: int) -> None:
    found = raspberry_pi.decode(code)
    assert found is not None
    assert (found.soc, found.memory_mb) == (soc, memory_mb)


def test_an_old_revision_code_tells_nothing() -> None:
    assert raspberry_pi.decode(0x000E) is None


def test_the_revision_code_is_also_in_the_device_tree(tmp_path: Path) -> None:
    files = {**tree("Raspberry Pi 4 Model B Rev 1.5"), f"{TREE}/system/linux,revision": bytes.fromhex("00c03115")}
    assert probe(record(tmp_path, files)).memory.nominal_mb == 4096


def test_a_revision_of_another_maker_is_not_a_raspberry_pis(tmp_path: Path) -> None:
    text = "processor\t: 0\nFeatures\t: half\n\nHardware\t: ODROID-XU4\nRevision\t: 0100\n"
    assert raspberry_pi.revision(record(tmp_path, {"proc/cpuinfo": text})) is None
