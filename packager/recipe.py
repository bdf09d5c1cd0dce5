"""Which variants are asked for: pure. A route is one variant and the converter that makes it.

From the source's format, the targets and the quantisation method follows a table of routes; a recipe file may list its
own instead (packager.recipe_file).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edge_contracts.bundle import TARGETS
from packager.errors import RecipeRefused

METHODS = ("static_int8", "dynamic_int8", "dynamic_fp16", "none")
TARGETS_OF_PURPOSE = {
    "edge-cpu": ("cpu",),
    "edge-gpu": ("cpu", "gpu"),
    "edge-npu": ("cpu", "vpu"),
    "cloud": ("cpu", "gpu"),
}
"""What ``--optimize-for`` needs; the CPU is always there to fall back on."""


@dataclass(frozen=True)
class Route:
    """One variant to be made. ``options`` go to the converter. ``fixed``: for accelerators that take fixed shapes."""

    runtime: str
    precision: str
    target: str
    converter: str
    options: dict[str, str] = field(default_factory=dict)
    fixed: bool = False

    @property
    def name(self) -> str:
        """For example ``onnxruntime-int8-cpu``."""
        return f"{self.runtime}-{self.precision}-{self.target}"


@dataclass(frozen=True)
class Recipe:
    """What the user asked for.

    ``targets`` of TARGETS. ``method`` of METHODS. ``fixed_shapes``: dimensions to freeze, by input.
    ``max_float_layers``: how many layers of an int8 variant may stay float to pass the gate. ``device_runtimes``: the
    runtime versions of the devices it is meant for. ``max_repairs``: attempts to save an int8 variant; None: as many as
    the size of its graph allows (packager.repair). ``variants``: routes of the recipe's own.
    """

    targets: tuple[str, ...] = ("cpu",)
    max_drop: float = 0.01
    method: str = "static_int8"
    fixed_shapes: dict[str, list[int]] = field(default_factory=dict)
    max_float_layers: int = 4
    max_repairs: int | None = None
    device_runtimes: dict[str, str] = field(default_factory=dict)
    variants: tuple[Route, ...] = ()


_CPU_FROM_ONNX = (
    Route("onnxruntime", "fp32", "cpu", "onnx_fp32"),
    Route("onnxruntime", "int8", "cpu", "onnx_int8_static"),
    Route("openvino", "fp32", "cpu", "openvino_fp32"),
    Route("openvino", "int8", "cpu", "openvino_int8"),
    Route("tflite", "fp32", "cpu", "tflite_fp32"),
)
_GPU_FROM_ONNX = (
    Route("onnxruntime", "fp16", "gpu", "onnx_fp16"),
    Route("openvino", "fp16", "gpu", "openvino_fp16"),
    Route("tflite", "fp32", "gpu", "tflite_fp32"),
)
"""TFLite's GPU delegate computes fp32 files in half by itself; the fp16 files of onnx2tf run on no CPU, so that they
could not be checked here."""
_VPU_FROM_ONNX = (
    Route("onnxruntime", "fp32", "vpu", "onnx_fp32", fixed=True),
    Route("openvino", "fp16", "vpu", "openvino_fp16", fixed=True),
    Route("openvino", "int8", "vpu", "openvino_int8", fixed=True),
)
_FROM_TFLITE: dict[str, Sequence[Route]] = {
    "cpu": (Route("tflite", "fp32", "cpu", "tflite_as_is"), Route("openvino", "fp32", "cpu", "openvino_fp32")),
    "gpu": (Route("tflite", "fp32", "gpu", "tflite_as_is"), Route("openvino", "fp16", "gpu", "openvino_fp16")),
    "vpu": (Route("openvino", "fp16", "vpu", "openvino_fp16", fixed=True),),
}
_FROM_INT8_TFLITE: dict[str, Sequence[Route]] = {
    "cpu": (Route("tflite", "int8", "cpu", "tflite_as_is"),),
    "vpu": (Route("tflite", "int8", "vpu", "tflite_as_is"),),
}


def parse_targets(text: str) -> tuple[str, ...]:
    """``cpu,gpu`` as the option says it. Raises RecipeRefused."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for target in wanted:
        if target not in TARGETS:
            raise RecipeRefused("--include-runtimes", f"{target!r} is not one of {', '.join(TARGETS)}")
    if not wanted:
        raise RecipeRefused("--include-runtimes", f"names no target; there is {', '.join(TARGETS)}")
    return tuple(target for target in TARGETS if target in wanted)


def parse_fixed_shape(text: str) -> tuple[str, list[int]]:
    """``x=1,3,224,224``. Raises RecipeRefused."""
    name, mark, sizes = text.rpartition("=")
    parts = [part.strip() for part in sizes.split(",")]
    if not mark or not name or not all(part.isascii() and part.isdigit() and 0 < int(part) < 2**31 for part in parts):
        raise RecipeRefused("--fixed-shape", f"{text[:80]!r} is not INPUT=1,3,224,224")
    return name, [int(part) for part in parts]


def routes(source_format: str, precision: str, recipe: Recipe) -> list[Route]:
    """The routes for a source of that format and precision, in the order of the bundle. Raises RecipeRefused."""
    wanted = list(recipe.variants) or [
        route for target in recipe.targets for route in _table(source_format, precision, recipe.method).get(target, ())
    ]
    names = [route.name for route in wanted]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise RecipeRefused("recipe", f"variant {repeated[0]!r} is asked for twice")
    return wanted


def _table(source_format: str, precision: str, method: str) -> dict[str, Sequence[Route]]:
    if source_format == "tflite":
        return _FROM_INT8_TFLITE if precision == "int8" else _FROM_TFLITE
    if precision != "fp32":
        return _as_it_is(precision)
    return {"cpu": _by_method(method), "gpu": _GPU_FROM_ONNX, "vpu": _without_int8(_VPU_FROM_ONNX, method)}


def _by_method(method: str) -> Sequence[Route]:
    if method == "static_int8":
        return _CPU_FROM_ONNX
    kept = [route for route in _CPU_FROM_ONNX if route.precision == "fp32"]
    if method == "dynamic_int8":
        kept.insert(1, Route("onnxruntime", "int8", "cpu", "onnx_int8_dynamic"))
    if method == "dynamic_fp16":
        kept += [replace(route, target="cpu") for route in _GPU_FROM_ONNX if route.precision == "fp16"]
    return kept


def _without_int8(table: Sequence[Route], method: str) -> Sequence[Route]:
    return table if method == "static_int8" else [route for route in table if route.precision != "int8"]


def _as_it_is(precision: str) -> dict[str, Sequence[Route]]:
    """A source that is fp16 or quantised already: what cannot be made better is only carried over."""
    onnx, openvino = Route("onnxruntime", precision, "cpu", "onnx_fp32"), Route("openvino", precision, "cpu", "openvino_fp32")  # noqa: E501  # fmt: skip
    gpu = (replace(onnx, target="gpu"), replace(openvino, target="gpu")) if precision == "fp16" else ()
    return {"cpu": (onnx, openvino), "gpu": gpu, "vpu": ()}
