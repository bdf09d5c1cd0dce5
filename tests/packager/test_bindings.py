from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts.tensor_signature import Signature, TensorSpec
from packager import bindings
from packager.bindings import Bindings
from packager.errors import RuntimeRefused
from packager.file_runtimes import FileTensor
from packager.samples import Sample


def signature(*shape: int | str) -> Signature:
    return Signature(
        inputs=[TensorSpec(name="images:0", dtype="FP32", shape=list(shape))],
        outputs=[TensorSpec(name="y", dtype="FP32", shape=list(shape))],
    )


def test_files_that_keep_names_are_bound_by_name() -> None:
    spec = signature("N", 3)
    bound = bindings.by_name(
        "openvino", spec, [FileTensor("images:0", "FP32", [-1, 3])], [FileTensor("y", "FP16", [4, 3])]
    )
    assert bound.inputs[0].shape == ["N", 3]
    assert (bound.outputs[0].dtype, bound.outputs[0].shape) == ("FP16", [4, 3])


def test_a_name_that_is_not_in_the_file_is_said() -> None:
    with pytest.raises(RuntimeRefused, match=r"no input 'images:0' in the file, only \['x'\]"):
        bindings.by_name("openvino", signature("N"), [FileTensor("x", "FP32", [-1])], [FileTensor("y", "FP32", None)])


def test_the_identity_is_tried_first_and_channels_last_next() -> None:
    tried = bindings.arrangements(signature("N", 3, 3, 3), [FileTensor("images__0", "FP32", [-1, 3, 3, 3])])
    assert [choice[0].permutation for choice in tried] == [None, [0, 2, 3, 1], [0, 3, 1, 2]]


def test_a_shape_that_fits_one_way_only_leaves_one_choice() -> None:
    tried = bindings.arrangements(signature("N", 3, 8, 9), [FileTensor("images", "FP32", [1, 8, 9, 3])])
    (choice,) = list(tried)
    assert choice[0].permutation == [0, 2, 3, 1]
    assert choice[0].shape == [1, 3, 8, 9]
    assert Bindings(choice, []).frozen(signature("N", 3, 8, 9)) == {"N": 1}


@given(st.sampled_from(list(itertools.permutations(range(1, 4)))), st.integers(0, 2**32 - 1))
def test_the_axes_of_an_output_are_found_whatever_way_they_were_turned(turn: tuple[int, ...], seed: int) -> None:
    """Rank 4, sizes all different: the shape decides among the known layouts."""
    layouts = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
    turn = turn if turn in layouts else layouts[seed % 3]
    rng = np.random.default_rng(seed)
    expected: list[Sample] = [{"y": rng.normal(size=(1, 3, 4, 5)).astype(np.float32)} for _ in range(2)]
    axes = (0, *turn)
    answers: list[Sample] = [{"out": row["y"].transpose(axes)} for row in expected]
    shape = [-1, *answers[0]["out"].shape[1:]]
    found, distance = bindings.nearest_outputs(
        signature("N", 3, 4, 5), [FileTensor("out", "FP32", shape)], expected, answers
    )
    assert distance == 0
    assert Bindings([], found).from_file(signature("N", 3, 4, 5), answers[0])["y"].tolist() == expected[0]["y"].tolist()


def test_two_outputs_of_one_shape_are_told_apart_by_name() -> None:
    spec = Signature(
        inputs=[],
        outputs=[
            TensorSpec(name="a", dtype="FP32", shape=["N", 2]),
            TensorSpec(name="b", dtype="FP32", shape=["N", 2]),
        ],
    )
    row = {"a": np.ones((1, 2), np.float32), "b": np.array([[1, -1]], np.float32)}
    files = [FileTensor("b", "FP32", [-1, 2]), FileTensor("a", "FP32", [-1, 2])]
    found, distance = bindings.nearest_outputs(spec, files, [row], [row])
    assert [item.source_name for item in found] == ["a", "b"]
    assert distance == 0


def test_a_quantised_input_is_given_as_integers() -> None:
    spec = signature("N", 2)
    (choice,) = bindings.arrangements(spec, [FileTensor("images_0", "INT8", [-1, 2], 0.5, -3)])
    fed = Bindings(choice, []).to_file(spec, {"images:0": np.array([[1.0, 1000.0]], np.float32)})
    assert fed["images_0"].tolist() == [[-1, 127]]


def test_a_leading_axis_can_be_declared_as_one_at_a_time() -> None:
    spec = signature("N", 3)
    bound = bindings.by_name(
        "tflite", spec, [FileTensor("images:0", "FP32", [-1, 3])], [FileTensor("y", "FP32", [-1, 3])]
    )
    assert bindings.frozen_to_one_sample(bound, spec, "N").frozen(spec) == {"N": 1}
