from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import Tensor
from edge_contracts.parity import judge, to_array, to_tensor

RANDOM = np.random.default_rng(7)


def scores(count: int = 120, classes: int = 10) -> list[dict[str, np.ndarray]]:
    return [{"y": RANDOM.normal(size=(1, classes)).astype(np.float32)} for _ in range(count)]


def test_equal_answers_pass_with_no_drop() -> None:
    want = scores()
    verdict = judge(want, want, None, 0.0)
    assert (verdict.passed, verdict.accuracy.metric, verdict.accuracy.drop) == (True, "agreement", 0.0)


def test_with_a_hundred_labels_the_task_metric_decides() -> None:
    want = scores(200)
    labels = [int(np.argmax(sample["y"])) for sample in want]
    got = [dict(sample) for sample in want]
    for sample in got[:10]:
        sample["y"] = -sample["y"]
    verdict = judge(want, got, labels, 0.01)
    assert (verdict.passed, verdict.accuracy.metric, verdict.accuracy.drop) == (False, "top1", pytest.approx(0.05))
    assert "drop 0.05" in verdict.reason
    assert judge(want, got, labels, 0.06).passed


def test_fewer_than_a_hundred_labels_give_agreement_not_accuracy() -> None:
    want = scores(50)
    assert judge(want, want, [0] * 50, 0.01).accuracy.metric == "agreement"


def test_scaled_noise_that_keeps_the_winner_fails_on_cosine_without_labels() -> None:
    want = [{"y": np.eye(1, 10, 3, dtype=np.float32) * 2} for _ in range(20)]
    got = [{"y": sample["y"] + np.float32(1.0)} for sample in want]
    verdict = judge(want, got, None, 0.01)
    assert not verdict.passed
    assert "cosine" in verdict.reason


@pytest.mark.parametrize("shape", [(1, 1), (1, 4, 4), (1, 10)])
def test_answers_of_the_wrong_size_fail_though_their_direction_is_right(shape: tuple[int, ...]) -> None:
    want = [{"y": np.abs(RANDOM.normal(size=shape)).astype(np.float32)} for _ in range(16)]
    for factor in (5.0, 1.3, 0.5):
        verdict = judge(want, [{"y": sample["y"] * np.float32(factor)} for sample in want], None, 0.01)
        assert not verdict.passed, f"times {factor}"
        assert verdict.accuracy.relative_error == pytest.approx(abs(factor - 1), rel=1e-3)
        assert "of their size" in verdict.reason
    assert judge(want, [{"y": sample["y"] * np.float32(1.02)} for sample in want], None, 0.01).passed


def test_a_masked_score_and_an_output_that_is_always_zero_have_no_size() -> None:
    want = [{"y": np.array([[1.0, -np.inf, 2.0]], np.float32), "z": np.zeros((1, 2), np.float32)} for _ in range(3)]
    assert judge(want, want, None, 0.01).accuracy.relative_error == 0.0
    got = [{**sample, "z": sample["z"] + np.float32(1)} for sample in want]
    assert not judge(want, got, None, 0.01).passed


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({}, "missing"),
        ({"y": np.zeros((1, 3), np.float32)}, "shape"),
        ({"y": np.full((1, 10), np.nan, np.float32)}, "NaN"),
    ],
)
def test_a_broken_answer_fails_whatever_the_gate(answer: dict[str, np.ndarray], text: str) -> None:
    verdict = judge(scores(1), [answer], None, 1.0)
    assert not verdict.passed
    assert text in verdict.reason


def test_integer_and_text_outputs_must_be_equal() -> None:
    want = [{"ids": np.arange(10)} for _ in range(3)]
    got = [{"ids": np.where(np.arange(10) == 4, 99, np.arange(10))} for _ in range(3)]
    verdict = judge(want, got, None, 0.01)
    assert (verdict.passed, verdict.accuracy.value) == (False, pytest.approx(0.9))


@given(
    st_np.arrays(
        st.sampled_from([np.float32, np.int64, np.uint8, np.bool_]), st_np.array_shapes(min_dims=0, min_side=0)
    )
)
def test_an_array_survives_as_a_tensor(array: np.ndarray) -> None:
    back = to_array(to_tensor("t", array))
    assert back.dtype == array.dtype
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")


def test_text_survives_as_bytes() -> None:
    array = np.array([[b"", b"\xff"], ["ü".encode(), b"x"]], dtype=object)
    assert to_array(to_tensor("t", array)).tolist() == array.tolist()


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(MalformedTensor, match="COMPLEX"):
        to_array(Tensor("t", "COMPLEX", (1,), b"\0" * 8))
