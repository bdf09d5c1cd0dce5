"""A recipe as a TOML file: the options of `mindpack build` that belong to a model, and its own list of variants.

targets = ["cpu", "gpu"]
max_drop = 0.02
method = "static_int8"                 # static_int8 | dynamic_int8 | dynamic_fp16 | none
max_float_layers = 6
max_repairs = 3                        # attempts to save an int8 variant; default: by the number of nodes
[fixed_shapes]
x = [1, 3, 224, 224]
[device_runtimes]                      # what the devices have: a variant that needs a newer one is left out
onnxruntime = "1.16"
[[variants]]                           # instead of the variants that follow from targets and method
runtime = "onnxruntime"
precision = "int8"
target = "cpu"
converter = "onnx_int8_static"
options = { method = "entropy" }
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec

from edge_contracts.bundle import RUNTIMES, TARGETS
from packager.converters.registry import MODULES
from packager.errors import RecipeRefused
from packager.recipe import METHODS, Recipe, Route

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class _Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    runtime: str
    precision: str
    target: str
    converter: str
    options: dict[str, str] = {}
    fixed: bool = False


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[str, ...] = ("cpu",)
    max_drop: float = 0.01
    method: str = "static_int8"
    max_float_layers: Annotated[int, msgspec.Meta(ge=0)] = 4
    max_repairs: Annotated[int, msgspec.Meta(ge=0)] | None = None
    fixed_shapes: dict[str, list[int]] = {}
    device_runtimes: dict[str, str] = {}
    variants: list[_Variant] = []


def read_recipe(path: Path) -> Recipe:
    """Raises RecipeRefused naming file and field; OSError passes."""
    try:
        parsed = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise RecipeRefused(str(path), str(error)) from error
    _one_of(path, "method", parsed.method, METHODS)
    if not 0 <= parsed.max_drop <= 1:
        raise RecipeRefused(str(path), f"max_drop is {parsed.max_drop:g}, not between 0 and 1")
    for target in parsed.targets:
        _one_of(path, "targets", target, TARGETS)
    for variant in parsed.variants:
        _one_of(path, "variants.runtime", variant.runtime, RUNTIMES)
        _one_of(path, "variants.target", variant.target, TARGETS)
        _one_of(path, "variants.precision", variant.precision, ("fp32", "fp16", "int8"))
        _one_of(path, "variants.converter", variant.converter, tuple(MODULES))
    return Recipe(
        targets=tuple(target for target in TARGETS if target in parsed.targets), max_drop=parsed.max_drop,
        method=parsed.method, fixed_shapes=parsed.fixed_shapes, max_float_layers=parsed.max_float_layers,
        max_repairs=parsed.max_repairs, device_runtimes=parsed.device_runtimes,
        variants=tuple(Route(**msgspec.structs.asdict(variant)) for variant in parsed.variants),
    )  # fmt: skip


def _one_of(path: Path, field: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise RecipeRefused(str(path), f"{field}: {value!r} is not one of {', '.join(known)}")
