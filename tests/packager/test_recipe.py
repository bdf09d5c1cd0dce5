from __future__ import annotations

import pytest

from packager.converters.registry import MODULES
from packager.errors import RecipeRefused
from packager.recipe import Recipe, Route, parse_fixed_shape, parse_targets, routes


def test_the_cpu_gets_every_runtime_in_full_precision_and_int8_where_there_is_a_converter() -> None:
    assert [route.name for route in routes("onnx", "fp32", Recipe())] == [
        "onnxruntime-fp32-cpu", "onnxruntime-int8-cpu", "openvino-fp32-cpu", "openvino-int8-cpu", "tflite-fp32-cpu",
    ]  # fmt: skip


def test_every_route_has_a_converter_and_a_name_of_its_own() -> None:
    wanted = routes("onnx", "fp32", Recipe(targets=("cpu", "gpu", "vpu")))
    assert {route.converter for route in wanted} <= MODULES.keys()
    assert len({route.name for route in wanted}) == len(wanted)


def test_targets_are_parsed_in_a_fixed_order_and_unknown_ones_refused() -> None:
    assert parse_targets("gpu, cpu") == ("cpu", "gpu")
    with pytest.raises(RecipeRefused, match="--include-runtimes: 'tpu' is not one of cpu, gpu, vpu"):
        parse_targets("cpu,tpu")
    with pytest.raises(RecipeRefused, match="names no target"):
        parse_targets(" , ")


def test_each_method_of_quantisation_changes_only_what_it_names() -> None:
    def precisions(method: str) -> list[str]:
        return [route.precision for route in routes("onnx", "fp32", Recipe(method=method))]

    assert precisions("none") == ["fp32"] * 3
    assert precisions("dynamic_int8") == ["fp32", "int8", "fp32", "fp32"]
    assert precisions("dynamic_fp16") == ["fp32", "fp32", "fp32", "fp16", "fp16"]


def test_a_model_that_is_int8_already_is_only_carried_over() -> None:
    assert {route.precision for route in routes("onnx", "int8", Recipe())} == {"int8"}
    assert [route.converter for route in routes("tflite", "int8", Recipe())] == ["tflite_as_is"]


def test_the_same_variant_twice_is_refused() -> None:
    twice = Route("onnxruntime", "fp32", "cpu", "stub")
    with pytest.raises(RecipeRefused, match="'onnxruntime-fp32-cpu' is asked for twice"):
        routes("onnx", "fp32", Recipe(variants=(twice, twice)))


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,0", "x=1,a", "x=-1"])
def test_a_fixed_shape_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RecipeRefused, match="--fixed-shape"):
        parse_fixed_shape(text)


def test_a_fixed_shape_is_parsed_even_with_an_equals_sign_in_the_name() -> None:
    assert parse_fixed_shape("a=b=1, 3") == ("a=b", [1, 3])
