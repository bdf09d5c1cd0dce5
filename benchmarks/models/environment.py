"""Environments of their own for what must not live in the product's: made once, by pip's own settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TORCH_STEPS: tuple[tuple[str, ...], ...] = (
    ("torch==2.13.0", "onnx", "onnxscript", "numpy", "pyyaml", "safetensors", "huggingface_hub", "omegaconf", "pillow"),
    ("--no-deps", "timm==1.0.31", "effdet==0.4.1"),
)
"""timm and effdet ask for torchvision and pycocotools, which they import and do not need here: see stand_ins."""


def environment(folder: Path, steps: Sequence[Sequence[str]], python: str = sys.executable) -> Path:
    """The interpreter of the environment in ``folder``, made by ``steps`` of pip when it is not there.

    Raises subprocess.CalledProcessError; then no folder is left.
    """
    interpreter = folder / "bin" / "python"
    if interpreter.exists():
        return interpreter
    print(f"making {folder.name} (once)", file=sys.stderr)
    try:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        for step in steps:
            subprocess.run([str(interpreter), "-m", "pip", "install", "-q", *step], check=True, stdout=sys.stderr)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return interpreter


def torch_environment(cache: Path) -> Path:
    """Torch 2.13, timm, effdet and Pillow. Where pip finds no CPU build it takes the much larger one with CUDA."""
    return environment(cache / "torch-env", TORCH_STEPS)
