"""Sessions over a recording backend: what reaches the file's tensors, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from agent.errors import BackendError, ProviderFellBack
from agent.inference.session import ModelSession
from edge_contracts.bundle import VariantSpec
from edge_contracts.tensor_signature import Signature, TensorBinding, TensorSpec

IMAGE = TensorSpec(name="image", dtype="FP32", shape=["batch", 1, 2, 3])
SCALE = TensorSpec(name="scale", dtype="FP32", shape=[1])
SUM = TensorSpec(name="sum", dtype="FP32", shape=["batch", 1])
TOTAL = TensorSpec(name="total", dtype="FP32", shape=[1])


class Recording:
    """Sums each sample; keeps the feeds."""

    provider = "cpu"

    def __init__(self) -> None:
        self.feeds: list[Mapping[str, Any]] = []
        self.closed = False

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        self.feeds.append(feeds)
        image = feeds["img"]
        return {"out": image.reshape(image.shape[0], -1).sum(axis=1, keepdims=True), "all": image.sum().reshape(1)}

    def close(self) -> None:
        self.closed = True


def session(
    frozen: int | None = None, *, outputs: tuple[str, ...] = ("sum",), with_scale: bool = False,
    options: dict[str, Any] | None = None, backend: Recording | None = None,
) -> tuple[ModelSession, Recording]:  # fmt: skip
    batch: int | str = "batch" if frozen is None else frozen
    bindings = [TensorBinding(name="image", source_name="img", dtype="FP32", shape=[batch, 1, 2, 3],
                              permutation=[0, 2, 3, 1])]  # fmt: skip
    if with_scale:
        bindings.append(TensorBinding(name="scale", source_name="s", dtype="FP32", shape=[1]))
    known = {"sum": TensorBinding(name="sum", source_name="out", dtype="FP32", shape=[batch, 1]),
             "total": TensorBinding(name="total", source_name="all", dtype="FP32", shape=[1])}  # fmt: skip
    spec = VariantSpec(name="v", runtime="r", target="cpu", precision="fp32", entry="f", inputs=bindings,
                       outputs=[known[name] for name in outputs])  # fmt: skip
    signature = Signature(inputs=[IMAGE, SCALE] if with_scale else [IMAGE], outputs=[SUM, TOTAL])
    recording = backend or Recording()
    return ModelSession("r", recording, signature, spec, options or {}), recording


def images(count: int) -> np.ndarray:
    return np.arange(count * 6, dtype=np.float32).reshape(count, 1, 2, 3)


def test_the_file_gets_its_own_layout_and_names() -> None:
    model, recording = session()
    result = model.infer({"image": images(2)})
    assert recording.feeds[0]["img"].shape == (2, 2, 3, 1)
    np.testing.assert_array_equal(result["sum"], [[15.0], [51.0]])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("frozen", [1, 2, 3])
def test_a_frozen_leading_axis_is_split_filled_up_and_joined(count: int, frozen: int) -> None:
    model, recording = session(frozen)
    result = model.infer({"image": images(count)})
    expected = images(count).reshape(count, -1).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(result["sum"], expected)
    assert all(feeds["img"].shape[0] == frozen for feeds in recording.feeds)
    assert len(recording.feeds) == -(-count // frozen)


def test_inputs_without_the_batch_axis_reach_every_slice_whole() -> None:
    model, recording = session(1, with_scale=True)
    model.infer({"image": images(3), "scale": np.ones(1, np.float32)})
    assert [feeds["s"].shape for feeds in recording.feeds] == [(1,)] * 3


def test_an_output_that_does_not_carry_the_batch_cannot_be_joined() -> None:
    model, _ = session(1, outputs=("sum", "total"))
    assert set(model.infer({"image": images(1)})) == {"sum", "total"}
    with pytest.raises(BackendError, match="'total' does not carry the batch"):
        model.infer({"image": images(2)})


def test_an_empty_batch_is_refused() -> None:
    model, _ = session(1)
    with pytest.raises(BackendError, match="empty batch"):
        model.infer({"image": images(0)})


def test_a_missing_input_and_a_wrong_rank_are_named() -> None:
    model, _ = session()
    with pytest.raises(BackendError, match="'image' is missing"):
        model.infer({})
    with pytest.raises(BackendError, match="does not fit"):
        model.infer({"image": np.ones((2, 3), np.float32)})


def test_an_output_the_file_does_not_have_is_named() -> None:
    class Silent(Recording):
        def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
            return {}

    model, _ = session(backend=Silent())
    with pytest.raises(BackendError, match="no output 'out'"):
        model.infer({"image": images(1)})


def test_another_provider_than_asked_for_is_a_fall_back_also_after_the_first_run() -> None:
    class Falling(Recording):
        def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
            self.provider = "slow"
            return super().run(feeds)

    model, _ = session(options={"provider": "cpu"}, backend=Falling())
    model.check_provider()
    model.infer({"image": images(1)})
    with pytest.raises(ProviderFellBack, match="asked for cpu, runs on slow"):
        model.warm_up()


def test_close_frees_the_backends_session() -> None:
    model, recording = session()
    model.close()
    assert recording.closed
