"""Which variants are asked for: pure. A route is one variant and the converter that makes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from edge_contracts.bundle import TARGETS
from packager.errors import RecipeRefused


@dataclass(frozen=True)
class Route:
    """One variant to be made. ``options`` go to the converter."""

    runtime: str
    precision: str
    target: str
    converter: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For example ``onnxruntime-int8-cpu``."""
        return f"{self.runtime}-{self.precision}-{self.target}"


@dataclass(frozen=True)
class Recipe:
    """What the user asked for. ``targets`` of TARGETS."""

    targets: tuple[str, ...] = ("cpu",)
    max_drop: float = 0.01
    fixed_shapes: dict[str, list[int]] = field(default_factory=dict)


_FROM_ONNX: dict[str, Sequence[Route]] = {
    "cpu": (
        Route("onnxruntime", "fp32", "cpu", "onnx_fp32"),
        Route("onnxruntime", "int8", "cpu", "onnx_int8_static"),
        Route("openvino", "fp32", "cpu", "openvino_fp32"),
        Route("openvino", "int8", "cpu", "openvino_int8"),
        Route("tflite", "fp32", "cpu", "tflite_fp32"),
    ),
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


def routes(source_format: str, recipe: Recipe) -> list[Route]:
    """The routes for a source of that format, in the order of the bundle."""
    table: dict[str, dict[str, Sequence[Route]]] = {"onnx": _FROM_ONNX}
    return [route for target in recipe.targets for route in table[source_format].get(target, ())]
