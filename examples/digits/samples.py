"""Split scikit-learn's digits and write `heldout.npz` and `calibration.npz`, the same bytes each time.

    python samples.py [--out DIR]

Keys are the model's input names (`image`: float32 [n, 1, 8, 8] in [0, 1]) and `labels` (int64 [n]). Nothing is pickled.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

SPLIT_SEED = 7
HELDOUT_SAMPLES = 400
CALIBRATION_SAMPLES = 200
MAX_PIXEL = 16.0


class Split(NamedTuple):
    """`image` float32 [n, 1, 8, 8] in [0, 1] and `labels` int64 [n] of the same samples."""

    image: np.ndarray[Any, np.dtype[np.float32]]
    labels: np.ndarray[Any, np.dtype[np.int64]]


def split_digits() -> tuple[Split, Split]:
    """The training samples and the held-out ones: disjoint, shuffled by a fixed seed."""
    digits = load_digits()
    images = (digits.images / MAX_PIXEL).astype(np.float32)[:, np.newaxis]
    labels = digits.target.astype(np.int64)
    order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(labels))
    heldout, training = order[:HELDOUT_SAMPLES], order[HELDOUT_SAMPLES:]
    return Split(images[training], labels[training]), Split(images[heldout], labels[heldout])


def write_npz(path: Path, split: Split) -> None:
    """Like `numpy.savez`, with a fixed date on each member; not compressed, so that no zlib changes the bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, values in split._asdict().items():
            body = io.BytesIO()
            np.lib.format.write_array(body, np.ascontiguousarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), body.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder for the two files")
    out = parser.parse_args().out
    training, heldout = split_digits()
    calibration = Split(training.image[:CALIBRATION_SAMPLES], training.labels[:CALIBRATION_SAMPLES])
    for name, split in {"heldout": heldout, "calibration": calibration}.items():
        path = out / f"{name}.npz"
        write_npz(path, split)
        print(f"{path}: {len(split.labels)} samples, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
