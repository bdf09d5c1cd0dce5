"""How far a variant's answers are from the source model's, and whether that passes the gate.

The packager judges with it while building and the device's trial on the chip, so that both mean the same. Needs NumPy:
the daemon never imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_contracts.bundle import Accuracy
from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import Tensor, join_bytes_elements, split_bytes_elements
from edge_contracts.tensor_signature import BYTES, DTYPE_OF_NUMPY, NUMPY_NAME, element_count

MIN_LABELED_SAMPLES = 100
ROUNDING = 1e-5
"""A relative difference that any two right implementations of the same arithmetic may show."""
Array = NDArray[np.generic]
Outputs = Mapping[str, Array]


@dataclass(frozen=True)
class Verdict:
    """``passed`` against the gate; ``reason`` says in one line why not (empty when passed)."""

    accuracy: Accuracy
    passed: bool
    reason: str = ""


def to_array(tensor: Tensor) -> Array:
    """A NumPy view of a tensor (BYTES: an object array of bytes; BF16: uint16 bit patterns). Raises MalformedTensor."""
    if tensor.dtype == BYTES:
        elements = split_bytes_elements(tensor.name, tensor.data, element_count(tensor.name, tensor.shape))
        array = np.empty(len(elements), dtype=object)
        array[:] = elements
        return array.reshape(tensor.shape)
    numpy_name = "uint16" if tensor.dtype == "BF16" else NUMPY_NAME.get(tensor.dtype)
    if numpy_name is None:
        raise MalformedTensor(tensor.name, f"unknown dtype {tensor.dtype!r}")
    try:
        return np.frombuffer(tensor.data, dtype=np.dtype(numpy_name).newbyteorder("<")).reshape(tensor.shape)
    except ValueError as error:
        raise MalformedTensor(tensor.name, str(error)) from error


def to_tensor(name: str, array: Array) -> Tensor:
    """The inverse of to_array. Raises MalformedTensor for a dtype the protocol does not have."""
    if array.dtype.kind in "OSU":
        elements = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
        return Tensor(name, BYTES, tuple(array.shape), join_bytes_elements(elements))
    dtype = DTYPE_OF_NUMPY.get(array.dtype.name)
    if dtype is None:
        raise MalformedTensor(name, f"dtype {array.dtype} has no name in the Open Inference Protocol")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return Tensor(name, dtype, tuple(array.shape), little.tobytes())


def judge(
    expected: Sequence[Outputs], actual: Sequence[Outputs], labels: Sequence[int] | None, max_drop: float
) -> Verdict:
    """Compare ``actual`` with ``expected`` (one mapping of output arrays per sample, same names and order).

    With ``labels`` (at least 100) the metric is top-1 accuracy of the first output; else top-1 agreement where the
    first output looks like class scores, else the mean cosine. Finite expected values answered by NaN or infinity, a
    wrong shape or a missing output fail at once. Without labels the mean cosine must be within ``max_drop`` of 1 too,
    and the relative error within ``sqrt(2 max_drop)``: where lengths agree both say the same (1 - cosine is half the
    squared error), and a cosine alone is blind to a wrong scale and to every error of a single value.
    Integer, boolean and BYTES outputs count as agreeing when equal.
    """
    broken = next((text for pair in zip(expected, actual, strict=True) if (text := _structural_fault(*pair))), "")
    if broken:
        return Verdict(Accuracy(metric="agreement", value=0.0, source_value=1.0, drop=1.0), False, broken)
    cosine = float(np.mean([_worst_cosine(want, got) for want, got in zip(expected, actual, strict=True)]))
    error = max(_max_abs_error(want, got) for want, got in zip(expected, actual, strict=True))
    metric, value, source = _metric(expected, actual, labels, cosine)
    accuracy = Accuracy(
        metric=metric, value=round(value, 6), source_value=round(source, 6), drop=round(source - value, 6),
        cosine=round(cosine, 6), max_abs_error=round(error, 6), samples=len(expected),
        relative_error=round(_relative_error(expected, actual), 6),
    )  # fmt: skip
    return _verdict(accuracy, labels is not None and metric == "top1", max_drop)


def _verdict(accuracy: Accuracy, labeled: bool, max_drop: float) -> Verdict:
    tolerance = 1e-9
    if accuracy.drop > max_drop + tolerance:
        reason = (
            f"{accuracy.metric} {accuracy.value:.4f} against {accuracy.source_value:.4f} of the source model: "
            f"drop {accuracy.drop:.4f} over {max_drop:g} on {accuracy.samples} samples"
        )
        return Verdict(accuracy, False, reason)
    if not labeled and accuracy.cosine is not None and 1 - accuracy.cosine > max_drop + tolerance:
        reason = (
            f"mean cosine {accuracy.cosine:.4f} to the source model's outputs is more than {max_drop:g} below 1 "
            f"on {accuracy.samples} samples"
        )
        return Verdict(accuracy, False, reason)
    allowed = math.sqrt(2 * max(0.0, max_drop)) + tolerance
    if not labeled and accuracy.relative_error is not None and accuracy.relative_error > allowed + ROUNDING:
        reason = (
            f"answers differ from the source model's by {accuracy.relative_error:.3g} of their size (root mean "
            f"square), more than {allowed:.3g}, on {accuracy.samples} samples"
        )
        return Verdict(accuracy, False, reason)
    return Verdict(accuracy, True)


def _metric(
    expected: Sequence[Outputs], actual: Sequence[Outputs], labels: Sequence[int] | None, cosine: float
) -> tuple[str, float, float]:
    first = next(iter(expected[0]))
    want, got = [sample[first] for sample in expected], [sample[first] for sample in actual]
    scores = all(_is_class_scores(array) for array in want)
    if labels is not None and len(labels) == len(expected) >= MIN_LABELED_SAMPLES and scores:
        return "top1", _share_right(got, labels), _share_right(want, labels)
    if scores:
        same = [_top1(w) == _top1(g) for w, g in zip(want, got, strict=True)]
        return "agreement", float(np.mean(same)), 1.0
    if all(array.dtype.kind not in "fc" for array in want):
        equal = [float(np.mean(w == g)) for w, g in zip(want, got, strict=True)]
        return "agreement", float(np.mean(equal)), 1.0
    return "cosine", cosine, 1.0


def _is_class_scores(array: Array) -> bool:
    """One row of floats per sample, at least two classes: the common form of a classifier's output."""
    return array.dtype.kind == "f" and array.ndim == 2 and array.shape[0] == 1 and array.shape[1] >= 2


def _top1(row: Array) -> int:
    return int(np.argmax(np.asarray(row, dtype=np.float64)))


def _share_right(scores: Sequence[Array], labels: Sequence[int]) -> float:
    return float(np.mean([_top1(row) == label for row, label in zip(scores, labels, strict=True)]))


def _structural_fault(want: Outputs, got: Outputs) -> str:
    for name, expected in want.items():
        if name not in got:
            return f"output {name!r} is missing"
        actual = got[name]
        if actual.shape != expected.shape:
            return f"output {name!r} has shape {list(actual.shape)}, {list(expected.shape)} expected"
        if expected.dtype.kind == "f" and bool(np.any(np.isfinite(expected) & ~np.isfinite(actual.astype(np.float64)))):
            return f"output {name!r} has NaN or infinity where the source model has numbers"
    return ""


def _worst_cosine(want: Outputs, got: Outputs) -> float:
    return min((_cosine(expected, got[name]) for name, expected in want.items()), default=1.0)


def _cosine(want: Array, got: Array) -> float:
    if want.dtype.kind not in "fc":
        return float(np.mean(want == got)) if want.size else 1.0
    a, b = np.nan_to_num(_flat(want)), np.nan_to_num(_flat(got))
    if np.allclose(a, b, rtol=1e-5, atol=1e-7):
        return 1.0
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm else 0.0


def _relative_error(expected: Sequence[Outputs], actual: Sequence[Outputs]) -> float:
    """Over all samples together, so that answers near zero are measured by the size that this output usually has."""
    worst = 0.0
    for name in (name for name, array in expected[0].items() if array.dtype.kind == "f"):
        off = size = 0.0
        for want, got in zip(expected, actual, strict=True):
            a, b = _flat(want[name]), _flat(got[name])
            counts = np.isfinite(a)  # a masked score of -inf has no size
            off += float(np.sum((b[counts] - a[counts]) ** 2))
            size += float(np.sum(a[counts] ** 2))
        worst = max(worst, math.sqrt(off / size) if size else float(off > ROUNDING**2))
    return worst


def _max_abs_error(want: Outputs, got: Outputs) -> float:
    errors = [
        float(np.max(np.abs(np.nan_to_num(_flat(expected)) - np.nan_to_num(_flat(got[name])))))
        for name, expected in want.items()
        if expected.dtype.kind in "fiub" and expected.size
    ]
    return max(errors, default=0.0)


def _flat(array: Array) -> NDArray[np.float64]:
    return np.asarray(array, dtype=np.float64).ravel()
