"""SoCs by the device tree's compatible strings: their names and the accelerators that are part of the silicon. Data.

A GPU or NPU listed here is on the die of every such SoC. That a driver is loaded is another fact, found elsewhere.
Sources: the SoC makers' product pages and Linux, arch/arm64/boot/dts/.
"""

from __future__ import annotations

from typing import NamedTuple

from edge_contracts.capabilities import AcceleratorKind

GPU = AcceleratorKind.GPU
NPU = AcceleratorKind.NPU


class Unit(NamedTuple):
    """One accelerator on the die. `nodes` are the device nodes through which it is used, any of them."""

    kind: AcceleratorKind
    vendor: str
    name: str
    nodes: tuple[str, ...]
    drivers: tuple[str, ...]
    """The kernel drivers of this unit, as a DRM or platform device names them."""


class Soc(NamedTuple):
    name: str
    units: tuple[Unit, ...] = ()


JETSON_NODES = ("dev/nvhost-gpu", "dev/nvgpu/igpu0/power", "dev/nvidia0")
RENDER_NODES = ("dev/dri/renderD*",)
MALI_DRIVERS = ("panfrost", "panthor", "mali", "lima")


def _tegra(name: str, gpu: str) -> Soc:
    return Soc(name, (Unit(GPU, "NVIDIA", gpu, JETSON_NODES, ("nvgpu", "gk20a", "nvidia")),))


def _mali(name: str) -> Unit:
    return Unit(GPU, "Arm", name, ("dev/mali0", *RENDER_NODES), MALI_DRIVERS)


def _videocore(name: str) -> Unit:
    return Unit(GPU, "Broadcom", name, RENDER_NODES, ("v3d",))


def _rknpu(soc: str, tops: str) -> Unit:
    name = f"RKNPU ({soc}, {tops} TOPS)"
    return Unit(NPU, "Rockchip", name, ("dev/rknpu", *RENDER_NODES), ("RKNPU", "rknpu", "rocket"))


def _vivante(kind: AcceleratorKind, name: str) -> Unit:
    return Unit(kind, "Vivante", name, ("dev/galcore", *RENDER_NODES), ("etnaviv", "galcore"))


VIDEOCORE_VI = _videocore("VideoCore VI")
VIDEOCORE_VII = _videocore("VideoCore VII")

SOCS: dict[str, Soc] = {
    "brcm,bcm2835": Soc("BCM2835"),
    "brcm,bcm2836": Soc("BCM2836"),
    "brcm,bcm2837": Soc("BCM2837"),
    "brcm,bcm2711": Soc("BCM2711", (VIDEOCORE_VI,)),
    "brcm,bcm2712": Soc("BCM2712", (VIDEOCORE_VII,)),
    "nvidia,tegra210": _tegra("Tegra X1 (tegra210)", "Maxwell 128-core (gm20b)"),
    "nvidia,tegra186": _tegra("Tegra X2 (tegra186)", "Pascal 256-core (gp10b)"),
    "nvidia,tegra194": _tegra("Xavier (tegra194)", "Volta (gv11b)"),
    "nvidia,tegra234": _tegra("Orin (tegra234)", "Ampere (ga10b)"),
    "nvidia,tegra264": _tegra("Thor (tegra264)", "Blackwell (gb10b)"),
    "rockchip,rk3588": Soc("RK3588", (_mali("Mali-G610"), _rknpu("RK3588", "6"))),
    "rockchip,rk3588s": Soc("RK3588S", (_mali("Mali-G610"), _rknpu("RK3588S", "6"))),
    "rockchip,rk3576": Soc("RK3576", (_mali("Mali-G52"), _rknpu("RK3576", "6"))),
    "rockchip,rk3568": Soc("RK3568", (_mali("Mali-G52"), _rknpu("RK3568", "1"))),
    "rockchip,rk3566": Soc("RK3566", (_mali("Mali-G52"), _rknpu("RK3566", "1"))),
    "rockchip,rk3399": Soc("RK3399", (_mali("Mali-T860"),)),
    "rockchip,rk3399pro": Soc("RK3399Pro", (_mali("Mali-T860"),)),
    "rockchip,rk3328": Soc("RK3328", (_mali("Mali-450"),)),
    "rockchip,rk3288": Soc("RK3288", (_mali("Mali-T760"),)),
    "amlogic,g12b": Soc("S922X / A311D (G12B)", (_mali("Mali-G52"),)),
    "amlogic,s922x": Soc("S922X", (_mali("Mali-G52"),)),
    "amlogic,a311d": Soc("A311D", (_mali("Mali-G52"),)),
    "amlogic,sm1": Soc("S905X3 (SM1)", (_mali("Mali-G31"),)),
    "amlogic,s905x3": Soc("S905X3", (_mali("Mali-G31"),)),
    "amlogic,meson-gxbb": Soc("S905", (_mali("Mali-450"),)),
    "hardkernel,odroid-xu4": Soc("Exynos 5422", (_mali("Mali-T628"),)),
    "hardkernel,odroid-xu3": Soc("Exynos 5422", (_mali("Mali-T628"),)),
    "hardkernel,odroid-hc1": Soc("Exynos 5422", (_mali("Mali-T628"),)),
    "samsung,exynos5422": Soc("Exynos 5422", (_mali("Mali-T628"),)),
    "samsung,exynos5800": Soc("Exynos 5800", (_mali("Mali-T628"),)),
    "allwinner,sun50i-h5": Soc("H5", (_mali("Mali-450"),)),
    "allwinner,sun50i-h6": Soc("H6", (_mali("Mali-T720"),)),
    "allwinner,sun50i-h616": Soc("H616", (_mali("Mali-G31"),)),
    "allwinner,sun50i-h618": Soc("H618", (_mali("Mali-G31"),)),
    "allwinner,sun50i-a64": Soc("A64", (_mali("Mali-400"),)),
    "allwinner,sun8i-h3": Soc("H3", (_mali("Mali-400"),)),
    "fsl,imx8mq": Soc("i.MX 8M", (_vivante(GPU, "GC7000Lite"),)),
    "fsl,imx8mm": Soc("i.MX 8M Mini", (_vivante(GPU, "GCNanoUltra"),)),
    "fsl,imx8mp": Soc("i.MX 8M Plus", (_vivante(GPU, "GC7000UL"), _vivante(NPU, "VIP8000 (2.3 TOPS)"))),
    "ti,j721e": Soc("TDA4VM (J721E)"),
    "ti,am625": Soc("AM625"),
    "ti,am5728": Soc("AM5728"),
    "starfive,jh7110": Soc("JH7110"),
    "qcom,qcs6490": Soc("QCS6490"),
}


def find(compatible: list[str]) -> Soc | None:
    """The first entry that is known, most specific first; else the SoC's own string in its plain form."""
    for entry in compatible:
        if entry in SOCS:
            return SOCS[entry]
    if len(compatible) < 2:
        return None  # a board alone names no SoC
    return Soc(compatible[-1].partition(",")[2].upper() or compatible[-1])
