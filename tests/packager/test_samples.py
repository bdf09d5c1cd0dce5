from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_contracts.tensor_signature import Signature, TensorSpec
from packager.errors import SamplesRefused
from packager.samples import load_samples, read_rows, write_rows

SIGNATURE = Signature(
    inputs=[
        TensorSpec(name="image", dtype="FP32", shape=["batch", 1, 4, 4]),
        TensorSpec(name="rate", dtype="INT64", shape=[]),
    ],
    outputs=[TensorSpec(name="y", dtype="FP32", shape=["batch", 2])],
)


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "samples.npz"
    np.savez(path, **arrays)
    return path


def images(count: int = 3) -> Any:
    return np.random.default_rng(1).random((count, 1, 4, 4)).astype(np.float32)


def test_rows_are_requests_of_one_sample_and_labels_stay_with_them(tmp_path: Path) -> None:
    path = saved(tmp_path, image=images(), rate=np.array([8, 16, 8]), labels=np.array([1, 0, 1]))
    samples = load_samples(path, SIGNATURE)
    assert [row["image"].shape for row in samples.rows] == [(1, 1, 4, 4)] * 3
    assert [int(row["rate"]) for row in samples.rows] == [8, 16, 8]
    assert samples.rows[0]["rate"].shape == ()
    assert samples.labels == [1, 0, 1]


def test_a_row_with_nan_is_skipped_and_counted_with_its_label(tmp_path: Path) -> None:
    broken = images()
    broken[1, 0, 2, 2] = np.nan
    samples = load_samples(saved(tmp_path, image=broken, rate=np.zeros(3, int), labels=[0, 0, 1]), SIGNATURE)
    assert (len(samples.rows), samples.skipped, samples.labels) == (2, 1, [0, 1])


def test_a_file_of_nothing_but_nan_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, image=np.full((2, 1, 4, 4), np.nan, np.float32), rate=np.zeros(2, int))
    with pytest.raises(SamplesRefused, match="every sample holds NaN"):
        load_samples(path, SIGNATURE)


REFUSED = {
    "a missing input": ({"image": images()}, r"no key 'rate', an input of the model"),
    "an unknown key": ({"image": images(), "rate": np.zeros(3, int), "img": images()}, r"key 'img' is no input"),
    "a wrong shape": (
        {"image": np.zeros((3, 4, 4, 1), np.float32), "rate": np.zeros(3, int)},
        r"'image' has shape \[3, 4",
    ),
    "different counts": ({"image": images(), "rate": np.zeros(2, int)}, r"different numbers of samples"),
    "floats for integers": ({"image": images(), "rate": np.zeros(3)}, r"'rate' is float64; the model takes INT64"),
    "labels of another length": (
        {"image": images(), "rate": np.zeros(3, int), "labels": np.zeros(2, int)},
        r"'labels' is",
    ),
    "a class that the model does not have": (
        {"image": images(), "rate": np.zeros(3, int), "labels": np.array([0, 1, 2])},
        r"'labels' has 2; the model's first output has classes 0 to 1",
    ),
    "a negative class": (
        {"image": images(), "rate": np.zeros(3, int), "labels": np.array([0, -1, 1])},
        r"'labels' has -1; the model's",
    ),
    "no samples": ({"image": images(0), "rate": np.zeros(0, int)}, r"holds no samples"),
    "objects": (
        {"image": np.array([{}, 1, 2], dtype=object), "rate": np.zeros(3, int)},
        r"'image' holds Python objects",
    ),
}


@pytest.mark.parametrize("fault", sorted(REFUSED))
def test_samples_that_do_not_fit_are_refused_by_name(tmp_path: Path, fault: str) -> None:
    arrays, said = REFUSED[fault]
    with pytest.raises(SamplesRefused, match=said):
        load_samples(saved(tmp_path, **arrays), SIGNATURE)


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    path.write_bytes(b"<html>404</html>")
    with pytest.raises(SamplesRefused, match=r"is not a readable \.npz file \(it is no zip archive\)"):
        load_samples(path, SIGNATURE)
    np.save(tmp_path / "one.npy", images())
    with pytest.raises(SamplesRefused, match="is one array"):
        load_samples(tmp_path / "one.npy", SIGNATURE)


def test_a_cut_npz_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, image=images(), rate=np.zeros(3, int))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SamplesRefused, match="not a readable"):
        load_samples(path, SIGNATURE)


def test_a_header_that_claims_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**50, 1, 4, 4)})
    with zipfile.ZipFile(tmp_path / "samples.npz", "w") as archive:
        archive.writestr("image.npy", header.getvalue() + bytes(64))
    with pytest.raises(SamplesRefused, match=r"does not fit into memory|not a readable"):
        load_samples(tmp_path / "samples.npz", SIGNATURE)


def test_doubles_become_the_models_floats_and_strings_become_bytes(tmp_path: Path) -> None:
    text = Signature(inputs=[TensorSpec(name="s", dtype="BYTES", shape=["N"])], outputs=[])
    samples = load_samples(saved(tmp_path, s=np.array(["a", "ü"])), text)
    assert [row["s"].tolist() for row in samples.rows] == [[b"a"], ["ü".encode()]]
    doubles = load_samples(saved(tmp_path, image=images().astype(np.float64), rate=np.zeros(3, int)), SIGNATURE)
    assert doubles.rows[0]["image"].dtype == np.float32


def test_rows_come_back_from_a_file_as_they_were_strings_too(tmp_path: Path) -> None:
    words = np.empty((2,), dtype=object)
    words[:] = [b"", b"\xff\x00"]
    rows = [{"a": np.arange(6, dtype=np.int16).reshape(2, 3), "w": words, "s": np.array(5, dtype=np.int64)}]
    write_rows(tmp_path / "rows", rows)
    (back,) = read_rows(tmp_path / "rows")
    assert back["w"].tolist() == [b"", b"\xff\x00"]
    assert back["a"].tolist() == rows[0]["a"].tolist()
    assert back["s"].shape == ()
