"""Stands in for torchvision, which timm and effdet import and which the networks exported here never use."""

import enum
import sys
import types
from typing import Any

__version__ = "0.0.0"


class InterpolationMode(enum.Enum):
    """timm makes tables of these while it is imported."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class _Anything(types.ModuleType):
    """Any submodule, any name in it."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "InterpolationMode":
            return InterpolationMode
        return type(name, (), {})


for _name in ("ops", "ops.misc", "ops.boxes", "transforms", "transforms.functional", "models", "models.resnet",
              "models.feature_extraction", "datasets", "utils", "io"):  # fmt: skip
    sys.modules[f"{__name__}.{_name}"] = _module = _Anything(f"{__name__}.{_name}")
    if "." not in _name:
        globals()[_name] = _module
