"""Calibration and goldens of each model as .npz: real inputs for the trained ones, seeded noise for the others."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.models.environment import torch_environment

Arrays = Mapping[str, NDArray[Any]]
CALIBRATION, GOLDENS = 48, 16
MANY_GOLDENS = {"magika": 200}
"""Where samples are small: a loss of 1 % is only seen in a hundred of them."""
MAGIKA_SIDE, MAGIKA_BLOCK, MAGIKA_PADDING = 1024, 4096, 256


def image_noise(side: int) -> Callable[[int, int], Arrays]:
    def make(count: int, seed: int) -> Arrays:
        return {"image": np.random.default_rng(seed).standard_normal((count, 3, side, side), dtype=np.float32)}

    return make


def token_noise(count: int, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(64, 129, count)
    mask = (np.arange(128) < lengths[:, None]).astype(np.int64)
    return {"input_ids": rng.integers(0, 8192, (count, 128)), "attention_mask": mask}


def files_of_python(count: int, seed: int) -> Arrays:
    """``bytes``: int32 [count, 2048] as magika reads a file: 1024 bytes of its beginning and of its end, stripped."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in folder.rglob("*") if path.is_file() and 64 < path.stat().st_size < 200_000
                   and "site-packages" not in path.parts)  # fmt: skip
    chosen = np.random.default_rng(seed).choice(len(files), count, replace=False)
    return {"bytes": np.stack([magika_features(files[index].read_bytes()) for index in chosen])}


def magika_features(content: bytes) -> NDArray[np.int32]:
    """As magika 1.0 does it with its model standard_v3_3."""
    features = np.full(2 * MAGIKA_SIDE, MAGIKA_PADDING, dtype=np.int32)
    head = content[:MAGIKA_BLOCK].lstrip()[:MAGIKA_SIDE]
    tail = content[-MAGIKA_BLOCK:].rstrip()[-MAGIKA_SIDE:]
    features[: len(head)] = np.frombuffer(head, dtype=np.uint8)
    features[2 * MAGIKA_SIDE - len(tail) :] = np.frombuffer(tail, dtype=np.uint8)
    return features


MADE_HERE: dict[str, Callable[[int, int], Arrays]] = {
    "mobilenet-v3-large": image_noise(224),
    "resnet50": image_noise(224),
    "efficientdet-d0": image_noise(512),
    "bert-small": token_noise,
    "magika": files_of_python,
}


def write_samples(name: str, folder: Path, cache: Path) -> tuple[Path, Path]:
    """The paths of NAME.calibration.npz and NAME.goldens.npz, made unless they are there."""
    wanted = (
        (folder / f"{name}.calibration.npz", CALIBRATION, 1),
        (folder / f"{name}.goldens.npz", MANY_GOLDENS.get(name, GOLDENS), 2),
    )
    for path, count, seed in wanted:
        if path.exists():
            continue
        if name == "ocr-rec":
            script = Path(__file__).with_name("text_lines.py")
            subprocess.run([str(torch_environment(cache)), str(script), str(path), str(count), str(seed)], check=True)
        else:
            np.savez(path, **MADE_HERE[name](count, seed))  # type: ignore[arg-type]
    return wanted[0][0], wanted[1][0]
