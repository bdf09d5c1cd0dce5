"""Converters by name."""

from __future__ import annotations

import importlib
import importlib.util

from packager.converters.converter import Converter
from packager.errors import RecipeRefused

MODULES = {
    "onnx_fp16": "OnnxFp16",
    "onnx_fp32": "OnnxFp32",
    "onnx_int8_dynamic": "OnnxInt8Dynamic",
    "onnx_int8_static": "OnnxInt8Static",
    "openvino_fp16": "OpenVinoFp16",
    "openvino_fp32": "OpenVinoFp32",
    "openvino_int8": "OpenVinoInt8",
    "stub": "Stub",
    "tflite_as_is": "TfliteAsIs",
    "tflite_fp32": "TfliteFp32",
}
"""Module in this folder -> its class."""


def converter(name: str) -> Converter:
    """Imports the converter's file, not its tool. Raises RecipeRefused for a name that is not there."""
    if name not in MODULES:
        raise RecipeRefused("converter", f"there is none named {name!r}; there is {', '.join(MODULES)}")
    made: Converter = getattr(importlib.import_module(f"packager.converters.{name}"), MODULES[name])()
    return made


def missing_module(wanted: Converter) -> str | None:
    """The first module that the converter needs and cannot be found, else None. Imports none of them."""
    return next((name for name in wanted.needs.modules if importlib.util.find_spec(name) is None), None)
