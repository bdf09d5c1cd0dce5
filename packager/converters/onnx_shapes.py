"""Freeze open dimensions of an ONNX model's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packager.errors import ConverterError


def fix_shapes(model: Any, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Set the inputs' dimensions; those of values inside are forgotten and inferred again, outputs' names stay.

    Raises ConverterError for an input that is not there or a shape that contradicts the model's.
    """
    if not shapes:
        return model
    inputs = {value.name: value for value in model.graph.input}
    for name, shape in shapes.items():
        dims = inputs[name].type.tensor_type.shape.dim if name in inputs else []
        if name not in inputs or len(dims) != len(shape):
            raise ConverterError("fixed shape", f"the model has no input {name!r} of {len(shape)} dimensions")
        for dim, size in zip(dims, shape, strict=True):
            if dim.HasField("dim_value") and dim.dim_value > 0 and dim.dim_value != size:
                raise ConverterError("fixed shape", f"input {name!r} has a dimension {dim.dim_value}, not {size}")
            dim.ClearField("dim_param")
            dim.dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.dim_value:
                dim.ClearField("dim_param")
    import onnx

    return onnx.shape_inference.infer_shapes(model)
