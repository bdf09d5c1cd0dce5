"""Samples from the user: an ``.npz`` whose keys are input names, first axis samples, and optional ``labels``.

Never pickle. A row that holds NaN or infinity is skipped and counted; a file of which nothing remains is refused.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_contracts.golden import Golden, decode_goldens, encode_goldens
from edge_contracts.parity import to_array, to_tensor
from edge_contracts.tensor_signature import BYTES, NUMPY_NAME, Signature, TensorSpec
from packager.errors import SamplesRefused
from packager.file_digest import file_digest

LABELS = "labels"
Array = NDArray[Any]
Sample = dict[str, Array]


@dataclass(frozen=True)
class Samples:
    """``rows``: one request each, in the signature's names, shapes and dtypes. ``skipped``: rows left away for NaN."""

    rows: list[Sample]
    labels: list[int] | None
    digest: str
    skipped: int = 0


def load_samples(path: Path, signature: Signature) -> Samples:
    """Raises SamplesRefused naming the key; OSError passes."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise SamplesRefused(path, "is one array (.npy); save it as .npz with the input's name as its key")
        with loaded as archive:
            arrays = {name: _read(path, archive, name) for name in archive.files}
    except MemoryError as error:
        raise SamplesRefused(path, f"does not fit into memory ({_first_line(error)}): use fewer samples") from error
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise SamplesRefused(path, f"is not a readable .npz file ({_why(error)})") from error
    labels = arrays.pop(LABELS, None) if signature.input(LABELS) is None else None
    rows = _rows(path, arrays, signature)
    kept = [index for index, row in enumerate(rows) if _is_finite(row)]
    if not kept:
        raise SamplesRefused(path, "every sample holds NaN or infinity" if rows else "holds no samples")
    kept_labels = _labels(path, labels, len(rows), kept, _class_count(signature))
    return Samples([rows[index] for index in kept], kept_labels, file_digest(path), len(rows) - len(kept))


def write_rows(path: Path, rows: Sequence[Sample]) -> None:
    """Rows for a child process: strings and every dtype survive (the format of the bundle's goldens)."""
    goldens = (Golden([to_tensor(name, array) for name, array in row.items()], []) for row in rows)
    path.write_bytes(encode_goldens(goldens, model="rows"))


def read_rows(path: Path) -> list[Sample]:
    """The inverse of write_rows."""
    return [{tensor.name: to_array(tensor) for tensor in golden.inputs} for golden in decode_goldens(path.read_bytes())]


def _read(path: Path, archive: Any, name: str) -> Array:
    try:
        array: Array = archive[name]
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise SamplesRefused(path, f"{name!r} holds Python objects; save plain arrays (strings as dtype S or U)") from error  # noqa: E501  # fmt: skip
        raise
    return array


def _rows(path: Path, arrays: dict[str, Array], signature: Signature) -> list[Sample]:
    expected = [spec.name for spec in signature.inputs]
    unknown = sorted(arrays.keys() - set(expected))
    missing = [name for name in expected if name not in arrays]
    if missing:
        said = f"; it has {', '.join(unknown)}" if unknown else ""
        raise SamplesRefused(path, f"has no key {missing[0]!r}, an input of the model{said}")
    if unknown:
        raise SamplesRefused(path, f"key {unknown[0]!r} is no input of the model; it has {', '.join(expected)}")
    counts = {name: len(arrays[name]) if arrays[name].ndim else 0 for name in expected}
    if len(set(counts.values())) > 1:
        raise SamplesRefused(path, f"the inputs have different numbers of samples: {counts}")
    columns = {spec.name: list(_split(path, spec, arrays[spec.name])) for spec in signature.inputs}
    return [{name: columns[name][index] for name in expected} for index in range(next(iter(counts.values()), 0))]


def _split(path: Path, spec: TensorSpec, stacked: Array) -> Iterator[Array]:
    """One tensor per sample. An array of the tensor's own rank has its samples along the batch axis."""
    typed = _typed(path, spec, stacked)
    per_sample = typed.shape[1:]
    if typed.ndim == len(spec.shape) + 1 and spec.accepts(per_sample):
        return iter(typed)
    if typed.ndim == len(spec.shape) and spec.accepts((1, *per_sample)):
        return (typed[index : index + 1] for index in range(len(typed)))
    raise SamplesRefused(
        path, f"{spec.name!r} has shape {list(typed.shape)}; the model takes {_shape(spec)}: first axis samples, then "
        f"{_shape(spec, 1) if spec.shape and (isinstance(spec.shape[0], str) or spec.shape[0] == 1) else _shape(spec)}"
    )  # fmt: skip


def _typed(path: Path, spec: TensorSpec, array: Array) -> Array:
    if spec.dtype == BYTES:
        if array.dtype.kind not in "SU":
            raise SamplesRefused(path, f"{spec.name!r} is {array.dtype}; the model takes strings")
        return _as_bytes(array)
    if array.dtype.kind not in "biuf":
        raise SamplesRefused(path, f"{spec.name!r} is {array.dtype}; the model takes {spec.dtype}")
    wanted = np.dtype(NUMPY_NAME[spec.dtype])
    if array.dtype == wanted:
        return array
    if array.dtype.kind == "f" and wanted.kind in "iub":
        raise SamplesRefused(path, f"{spec.name!r} is {array.dtype}; the model takes {spec.dtype}")
    converted: Array = array.astype(wanted)
    if wanted.kind in "iub" and not np.array_equal(converted, array):
        raise SamplesRefused(path, f"{spec.name!r} has values that do not fit {spec.dtype}")
    return converted


def _as_bytes(array: Array) -> Array:
    elements = np.empty(array.size, dtype=object)
    elements[:] = [item if isinstance(item, bytes) else item.encode() for item in array.ravel().tolist()]
    return elements.reshape(array.shape)


def _class_count(signature: Signature) -> int | None:
    """Classes of the first output where it is one row of scores; None: the signature does not say."""
    shape = signature.outputs[0].shape if signature.outputs else []
    return shape[1] if len(shape) == 2 and isinstance(shape[1], int) and shape[1] >= 2 else None


def _labels(
    path: Path, labels: Array | None, count: int, kept: list[int], classes: int | None
) -> list[int] | None:  # fmt: skip
    if labels is None:
        return None
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != count:
        raise SamplesRefused(path, f"'labels' is {labels.dtype} {list(labels.shape)}; {count} whole numbers expected")
    wrong = sorted({label for label in labels.tolist() if label < 0 or (classes is not None and label >= classes)})
    if wrong:
        # Every variant would be as wrong as the source model, and pass.
        there_are = f"the model's first output has classes 0 to {classes - 1}" if classes else "classes count from 0"
        raise SamplesRefused(path, f"'labels' has {wrong[0]}; {there_are}")
    return [int(labels[index]) for index in kept]


def _is_finite(row: Sample) -> bool:
    return all(bool(np.isfinite(array).all()) for array in row.values() if array.dtype.kind == "f")


def _shape(spec: TensorSpec, start: int = 0) -> str:
    return "[" + ", ".join(str(dim) for dim in spec.shape[start:]) + "]"


def _why(error: Exception) -> str:
    """NumPy takes every file without a mark of its own for a pickle and advises to trust it."""
    text = _first_line(error)
    return "it is no zip archive" if "pickle" in text.lower() else text


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
